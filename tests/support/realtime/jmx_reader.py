"""A small Java client, run by the Java that is there."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from fastpath.java import find_java
from realtime.jmx.bridge import compiler

SOURCE = Path(__file__).with_name("Reader.java")
SECONDS_MAX = 30
QUERY = "query"
"""Asks for the MBeans with connections above 2 that are called Node, by a query that the server evaluates."""


def read(port: int, *what: str, logins: Sequence[str] = ("-",), trusted: Path | None = None) -> list[str]:
    """The answers to each login (USER/PASSWORD, - for none), one a line; of one that is refused one line says so.

    ``trusted`` is the file of the authority's certificate, with TLS.
    """
    options = []
    if trusted is not None:
        store = trusted.with_suffix(".p12")
        own = [pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(trusted.read_bytes()), b"own")]
        store.write_bytes(pkcs12.serialize_java_truststore(own, BestAvailableEncryption(b"public")))
        options = [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=public"]
    answer = subprocess.run(
        [
            *(str(find_java().home / "bin" / "java"), "-Xmx64m", "-XX:TieredStopAtLevel=1", *options),
            *("-cp", compiler(), "org.codehaus.janino.SimpleCompiler", str(SOURCE), "Reader"),
            *("127.0.0.1", str(port), "tls" if trusted else "plain", "\t".join(logins), *what),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()
