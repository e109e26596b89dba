"""The Java process that serves MBeans: started, fed with snapshots, ended with this process."""

from __future__ import annotations

import base64
import importlib.util
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from django.core.exceptions import ImproperlyConfigured

from fastpath.java import find_java
from realtime.addresses import Address

SOURCE = Path(__file__).with_name("Bridge.java")
LIFELINE = Path(__file__).parents[1] / "process" / "lifeline.py"

_STOP_SECONDS = 5.0

_OPTIONS = (
    "-Xmx64m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    # Whoever reaches the registry could put something of his own in place of what is bound there.
    "-Dsun.rmi.registry.registryFilter=!*",
    # A reader that goes on for ever holds a thread each; Bridge.java has fewer connections than that.
    "-Dsun.rmi.transport.tcp.maxConnectionThreads=64",
)

SILENT_SECONDS = 20
"""A connection is closed when nothing came over it for so long; Java's clients close theirs after 15 s."""

Beans = Mapping[str, Mapping[str, float | str | None]]
"""The attributes of each MBean, by the name of the MBean."""


class BridgeEnded(Exception):
    """The Java process could not serve, or is gone; the text says what is known."""


class Bridge:
    """``with Bridge(address, password) as bridge:`` serves what ``send`` is given until the block ends.

    Raises BridgeEnded, ImproperlyConfigured for files that cannot be used, and fastpath.java.JavaNotFound.
    """

    def __init__(self, address: Address, password: str = "", *, silent_seconds: int = SILENT_SECONDS) -> None:
        self._read_timeout = f"-Dsun.rmi.transport.tcp.readTimeout={silent_seconds * 1000}"
        self._settings = {
            "host": address.host,
            "port": str(address.port),
            "public": address.name or {"*": "127.0.0.1"}.get(address.host, address.host),
        }
        if password:
            self._settings["password"] = password
        if address.cert:
            self._settings |= _key_store(address)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        java = find_java().home / "bin" / "java"
        argv = [
            *(sys.executable, "-I", "-S", str(LIFELINE), str(os.getpid())),
            *(str(java), *_OPTIONS, self._read_timeout, f"-Djava.rmi.server.hostname={self._settings['public']}"),
            *("-cp", compiler(), "org.codehaus.janino.SimpleCompiler", str(SOURCE), "Bridge"),
        ]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", errors="replace"
        )
        try:
            self._write([*(f"{name}\t{_line(value)}" for name, value in self._settings.items()), "start"])
            assert self._process.stdout is not None
            said = self._process.stdout.readline().strip()
        except BaseException:
            self.__exit__()
            raise
        if said != "ready":
            self.__exit__()
            raise BridgeEnded(said.removeprefix("failed ") or "Java ended at its start")
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.close()  # it ends with its input
        except OSError:
            pass
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    @property
    def pid(self) -> int:
        """The Java process's."""
        assert self._process is not None
        return self._process.pid

    def send(self, beans: Beans) -> None:
        """Serve these MBeans from now on, and no others; raises BridgeEnded."""
        lines = []
        for name, values in beans.items():
            lines.append(f"bean\t{_line(name)}")
            for attribute, value in values.items():
                if isinstance(value, str):
                    lines.append(f"text\t{attribute}\t{_line(value)}")
                else:
                    known = value is not None and isfinite(value)
                    lines.append(f"number\t{attribute}\t{value if known else ''}")
        self._write([*lines, "commit"])

    def _write(self, lines: list[str]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n".join(lines) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise BridgeEnded("Java has ended") from None


def compiler() -> str:
    """Return the class path of Janino, the compiler among Spark's files; raise BridgeEnded where there is none.

    The Java that pip installs has no compiler of its own, and nothing that was compiled is kept in the project.
    """
    spec = importlib.util.find_spec("pyspark")  # nothing of it is imported
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        found = [*Path(folder).glob("jars/janino-*.jar"), *Path(folder).glob("jars/commons-compiler-*.jar")]
        if len(found) == 2:
            return os.pathsep.join(map(str, found))
    raise BridgeEnded("JMX needs the compiler Janino, which comes with pyspark: pip install pyspark")


def _key_store(address: Address) -> dict[str, str]:
    """Certificate and key as Java reads them, under a password that is made for this."""
    password = secrets.token_hex(16)
    try:
        key = load_pem_private_key(Path(address.key).read_bytes(), None)
        certificate, *chain = x509.load_pem_x509_certificates(Path(address.cert).read_bytes())
        store = pkcs12.serialize_key_and_certificates(
            b"fastpath",
            key,  # type: ignore[arg-type]
            certificate,
            chain,
            BestAvailableEncryption(password.encode()),
        )
    except (OSError, ValueError, TypeError) as error:
        raise ImproperlyConfigured(f"{address.cert}, {address.key}: {error}") from None
    return {"keystore": base64.b64encode(store).decode(), "storepass": password}


def _line(text: str) -> str:
    return " ".join(text.split()) if "\n" in text or "\r" in text or "\t" in text else text
