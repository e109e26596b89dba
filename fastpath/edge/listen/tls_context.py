"""The TLS side of a listener: certificate, versions, ciphers and who may connect (Mozilla's intermediate profile)."""

from __future__ import annotations

import ssl

from ...listen_address import Listener, SettingsError

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""TLS 1.2 with forward secrecy and authenticated encryption only: no CBC, no RSA key exchange."""

CURVE = "prime256v1"
"""Curve that every TLS client knows (RFC 8446 9.1). This version of Python takes a single curve; ``system`` leaves the
choice to OpenSSL and its configuration file."""

SYSTEM = "system"

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def tls_context(listener: Listener) -> ssl.SSLContext:
    """Return a context with what the listener's files hold now; raise SettingsError with what is wrong with them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[listener.tls_min]
    # RFC 7525 3.3, RFC 9325 3.4: compression and renegotiation that a client asks for are ways to attack.
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(listener.cert, listener.key or None)
        _choose_ciphers(context, listener)
        curve = listener.curve or CURVE
        if curve != SYSTEM:
            context.set_ecdh_curve(curve)
        if listener.ca:
            # Whoever connects shows a certificate of this authority. Without tickets nothing arrives unasked, so that
            # the client can tell a closed connection from an open one.
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(listener.ca)
            context.num_tickets = 0
    except (OSError, ssl.SSLError, ValueError) as error:
        raise SettingsError(
            f"TLS for {listener.where}: {error} (certificate {listener.cert}, key {listener.key or 'in it'})"
        ) from None
    return context


def _choose_ciphers(context: ssl.SSLContext, listener: Listener) -> None:
    """Choose TLS 1.2's suites; those of TLS 1.3 are all good, and this version of Python cannot choose among them."""
    excluded = [name for name in listener.ciphers_exclude.split(":") if name]
    for name in excluded:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(name)
        except ssl.SSLError:
            raise ValueError(f"ciphers_exclude: no cipher of TLS 1.2 is called {name}") from None
    context.set_ciphers(":".join([listener.ciphers or CIPHERS, *(f"!{name}" for name in excluded)]))
