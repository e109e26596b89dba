"""A certificate for this machine that is made for one run of the tests."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificate(NamedTuple):
    """The files of a certificate for 127.0.0.1, and of its key."""

    cert: Path
    key: Path

    @property
    def trusting(self) -> ssl.SSLContext:
        """What a client needs to accept it."""
        return ssl.create_default_context(cafile=str(self.cert))

    @property
    def options(self) -> str:
        """The options of a listener's URL."""
        return f"cert={self.cert}&key={self.key}"


def self_signed(folder: Path) -> Certificate:
    """Write a certificate that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=24))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    result = Certificate(folder / "cert.pem", folder / "key.pem")
    result.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    result.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return result
