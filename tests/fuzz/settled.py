"""What an operator writes: settings, their file, the addresses to listen on."""

from __future__ import annotations

import tempfile

from fastpath.listen_address import Listener, SettingsError
from fastpath.settings import PREFIX, SECRETS, describe, load

from .targets import Target, check

SECRET = "never-to-be-printed-by-anything"


def listeners(data: bytes) -> None:
    """An address is understood, or refused with a sentence that names it."""
    url = data.decode("utf-8", "replace")
    try:
        listener = Listener.parse(url)
    except SettingsError as error:
        check(str(error), "refused without a word")
        return
    check(listener.purposes, "an address for nothing")
    check(0 <= listener.port <= 65535, f"port {listener.port}")


def settings(data: bytes) -> None:
    """Settings are good or refused; from the environment (``NAME=value`` lines), or, behind a ``#``, from a file."""
    environment = {f"{PREFIX}{name.upper()}": SECRET for name in SECRETS}
    if data[:1] == b"#":
        with tempfile.NamedTemporaryFile(dir=None) as file:
            file.write(data[1:])
            file.flush()
            _load(environment | {f"{PREFIX}CONFIG": file.name})
        return
    for line in data.decode("utf-8", "replace").replace("\x00", "").split("\n"):
        name, _, value = line.partition("=")
        if name != "CONFIG":
            environment[PREFIX + name] = value
    _load(environment)


def _load(environment: dict[str, str]) -> None:
    try:
        loaded = load(environment)
    except SettingsError as error:
        check(SECRET not in str(error), "an error tells a secret")
        return
    check(loaded.listeners, "nowhere to listen")
    check(SECRET not in describe(loaded), "a secret is printed")
    _ = loaded.limits, loaded.drain_servers


_URLS = (
    b"clients://127.0.0.1:8800",
    b"clients+publishers://*:8800?deflate=200&batch_ms=20&batch_bytes=8192",
    b"clients+tls://[::1]?cert=/a/b.pem&key=/a/k.pem&ciphers=ECDHE&tls_min=1.3",
    b"control+tls://*:8802?cert=a&ca=b",
    b"clients+unix:///run/x.sock",
    b"metrics://127.0.0.1:9100",
    b"clients://*:8800?proxy=v2",
)

TARGETS = {
    "listeners": Target(
        listeners,
        _URLS,
        (
            b"clients",
            b"publishers",
            b"control",
            b"metrics",
            b"+tls",
            b"+unix",
            b"://",
            b"?",
            b"&",
            b"cert=",
            b"deflate=",
            b"[",
            b"]",
        ),
        512,
    ),
    "settings": Target(
        settings,
        (
            b"MODE=none\nLISTEN=" + b",".join(_URLS[:2]),
            b"WORKERS=2\nENGINE=redis+sentinel://u:p@h:1,h:2/n?sentinel_user=a&sentinel_password=b\nMODE=rules",
            b"SERVERS=wss://b/ws 100, wss://c/ws 50\nTRUSTED_PROXIES=10.0.0.0/8,::1\nJOURNAL=batch\nDATA=/d\nECHO=on",
            b"#mode = 'none'\nworkers = 2\nsnapshots = true\nlisten = 'clients://*:1'\n",
            b"PUBLISH_FROM=10.0.0.0/8,::1\nORIGINS=https://*.example.com\nPRESENCE=/chat/**\nAUDIT=access,message\nHOOKS=connect",
        ),
        (
            *(
                b"MODE=",
                b"LISTEN=",
                b"ENGINE=",
                b"JOURNAL=",
                b"SERVERS=",
                b"_BYTES_MAX=",
                b"PING_SECONDS=",
                b"LOG_LEVEL=",
            ),
            *(
                b"none",
                b"jwt",
                b"rules",
                b"custom",
                b"basic",
                b"redis://",
                b"9" * 30,
                b"-1",
                b"\xd9\xa1",
                b"1_0",
                b"/129",
            ),
        ),
        1024,
    ),
}
