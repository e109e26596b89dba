"""Certificates that a test makes for itself."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificate:
    """A self-signed certificate for ``localhost``; ``cert`` and ``key`` are its files. It is for ``addresses``, too."""

    def __init__(self, folder: Path, name: str = "localhost", addresses: Sequence[str] = ("127.0.0.1",)) -> None:
        self.cert = folder / f"{name}.pem"
        self.key = folder / f"{name}.key"
        secret = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names: list[x509.GeneralName] = [
            x509.DNSName(name),
            *(x509.IPAddress(ipaddress.ip_address(one)) for one in addresses),
        ]
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(secret.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(secret, hashes.SHA256())
        )
        self.cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        self.key.write_bytes(
            secret.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )

    @property
    def options(self) -> str:
        """The options of a listener's or a control address's URL."""
        return f"cert={self.cert}&key={self.key}"

    def url(self, purposes: str, options: str = "") -> str:
        """A listener with this certificate."""
        return f"{purposes}+tls://127.0.0.1:0?{self.options}{options}"

    def trusting(self) -> ssl.SSLContext:
        """The TLS side of a client that trusts this certificate and nothing else."""
        return ssl.create_default_context(cafile=str(self.cert))


class Chain:
    """A certificate for ``localhost`` as an authority's intermediate signed it; the file ``cert`` holds both.

    ``root`` is the authority's own, the one thing that a client trusts.
    """

    def __init__(self, folder: Path) -> None:
        self.cert, self.key, self.root = folder / "chain.pem", folder / "chain.key", folder / "root.pem"
        root, root_key = _signed("root", None, True)
        middle, middle_key = _signed("intermediate", (root, root_key), True)
        leaf, leaf_key = _signed("localhost", (middle, middle_key), False)
        self.root.write_bytes(root.public_bytes(serialization.Encoding.PEM))
        self.cert.write_bytes(b"".join(one.public_bytes(serialization.Encoding.PEM) for one in (leaf, middle)))
        self.key.write_bytes(
            leaf_key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )

    @property
    def options(self) -> str:
        """The options of an address's URL."""
        return f"cert={self.cert}&key={self.key}"

    def trusting(self) -> ssl.SSLContext:
        """The TLS side of a client that trusts the authority and nothing else."""
        context = ssl.create_default_context(cafile=str(self.root))
        context.verify_flags &= ~ssl.VERIFY_X509_PARTIAL_CHAIN
        return context


def _signed(
    name: str, by: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None, authority: bool
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, issuer_key = (by[0].subject, by[1]) if by else (subject, key)
    names: list[x509.GeneralName] = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return made, key
