"""What TLS clients are offered: Mozilla's intermediate profile by default, and what an address asks for instead."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.edge.listen.tls_context import tls_context
from fastpath.listen_address import Listener, SettingsError
from tests.support.certificates import Certificate
from tests.support.edge.wire import Ended, Socket, WireClient, WirePublisher
from tests.support.sidecar import Sidecar


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """One for all tests of this module."""
    return Certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """That of clients which are known."""
    return Certificate(tmp_path_factory.mktemp("known"))


@pytest.fixture(scope="module")
def addresses(certificate: Certificate, known: Certificate) -> Iterator[dict[str, str]]:
    """The address of each kind of listener of one sidecar, by what it asks for."""
    options = {
        "default": "",
        "1.3": "&tls_min=1.3",
        "curve": "&curve=secp384r1",
        "system": "&curve=system",
        "exclude": "&ciphers_exclude=CHACHA20:ECDHE-ECDSA-AES128-GCM-SHA256",
        "cbc": "&ciphers=ECDHE-ECDSA-AES128-SHA256",
        "ca": f"&ca={known.cert}",
    }
    listen = ",".join(certificate.url("clients+publishers", option) for option in options.values())
    with Sidecar(listen=listen) as sidecar:
        yield dict(zip(options, sidecar.ready["clients"], strict=True))


def agreed(address: str, certificate: Certificate, *, version: str = "", ciphers: str = "", curve: str = "") -> str:
    """The cipher that a client which offers no more than this gets; empty when it is refused."""
    context = certificate.trusting()
    if version:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    if ciphers:
        context.set_ciphers(ciphers)
    if curve:
        context.set_ecdh_curve(curve)
    try:
        with Socket(address, tls=context) as socket:
            assert isinstance(socket.sock, ssl.SSLSocket)
            cipher = socket.sock.cipher()
            assert cipher is not None
            return cipher[0]
    except (ssl.SSLError, ConnectionError):
        return ""


GCM, STRONG, CBC = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA256"
CHACHA = "ECDHE-ECDSA-CHACHA20-POLY1305"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_the_default_is_the_intermediate_profile(addresses: dict[str, str], certificate: Certificate) -> None:
    default = addresses["default"]
    for cipher in (GCM, STRONG, CHACHA):
        assert agreed(default, certificate, version="TLSv1_2", ciphers=cipher) == cipher
    assert agreed(default, certificate, version="TLSv1_3").startswith("TLS_")
    for weak in (CBC, "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384", "ECDHE-ECDSA-AES128-CCM"):
        assert agreed(default, certificate, version="TLSv1_2", ciphers=f"{weak}:@SECLEVEL=0") == "", weak
    for old in ("TLSv1", "TLSv1_1"):
        assert agreed(default, certificate, version=old, ciphers="ALL:@SECLEVEL=0") == "", old
    assert agreed(default, certificate, curve="prime256v1")
    assert agreed(default, certificate, curve="secp521r1") == "", "no curve that the profile does not have"


def test_what_an_address_asks_for_instead(addresses: dict[str, str], certificate: Certificate) -> None:
    assert agreed(addresses["1.3"], certificate, version="TLSv1_2") == ""
    assert agreed(addresses["1.3"], certificate)
    assert agreed(addresses["curve"], certificate, curve="secp384r1")
    assert agreed(addresses["curve"], certificate, curve="prime256v1") == ""
    assert agreed(addresses["system"], certificate, curve="secp384r1")
    assert agreed(addresses["system"], certificate, curve="prime256v1")
    for cipher, wanted in ((GCM, ""), (CHACHA, ""), (STRONG, STRONG)):
        assert agreed(addresses["exclude"], certificate, version="TLSv1_2", ciphers=cipher) == wanted
    assert agreed(addresses["cbc"], certificate, version="TLSv1_2", ciphers=CBC) == CBC
    assert agreed(addresses["cbc"], certificate, version="TLSv1_2", ciphers=GCM) == ""


def test_clients_and_publishers_may_have_to_show_a_certificate(
    addresses: dict[str, str], certificate: Certificate, known: Certificate
) -> None:
    context = certificate.trusting()
    context.load_cert_chain(known.cert, known.key)
    with WireClient(addresses["ca"], tls=context) as client, WirePublisher(addresses["ca"], tls=context) as publisher:
        client.subscribe("/tls/known")
        publisher.publish(["/tls/known", "x"])
        assert client.texts(1) == ["x"]
    own = certificate.trusting()
    own.load_cert_chain(certificate.cert, certificate.key)
    for stranger in (certificate.trusting(), own):
        with pytest.raises((ssl.SSLError, ConnectionError, Ended)):
            WireClient(addresses["ca"], tls=stranger)


def test_no_renegotiation_that_a_client_asks_for(certificate: Certificate) -> None:
    context = tls_context(Listener.parse(certificate.url("clients")))
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION


WRONG = {
    "ciphers=NONSENSE": "No cipher can be selected",
    "ciphers_exclude=NONSENSE": "ciphers_exclude: no cipher of TLS 1.2 is called NONSENSE",
    "ciphers_exclude=TLS_AES_128_GCM_SHA256": "no cipher of TLS 1.2 is called TLS_AES_128_GCM_SHA256",
    "ciphers_exclude=ECDHE": "No cipher can be selected",
    "curve=nonsense": "unknown elliptic curve name",
    "ca=/no/such/file": "No such file or directory",
}


@pytest.mark.parametrize(("option", "words"), WRONG.items(), ids=WRONG)
def test_options_that_cannot_be_used(certificate: Certificate, option: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as error:
        tls_context(Listener.parse(certificate.url("clients", f"&{option}")))
    assert str(error.value).startswith("TLS for 127.0.0.1:0: ")


def test_a_certificate_that_is_none(tmp_path: Path, certificate: Certificate) -> None:
    (tmp_path / "c.pem").write_text("nothing")
    with pytest.raises(SettingsError, match=r"TLS for \[::1\]:443: "):
        tls_context(Listener.parse(f"clients+tls://[::1]?cert={tmp_path}/c.pem&key={certificate.key}"))
