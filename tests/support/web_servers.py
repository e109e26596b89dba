"""Real web servers in front of a sidecar, with the configurations that docs/operate/web-servers prints."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from tests.support.certificates import Certificate
from tests.support.edge.sessions import Caller, PollSession, ProxiedSession, Session
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.guide import one, read
from tests.support.ports import free_port
from tests.support.realtime.server import Program
from tests.support.waiting import until

PAGES = "docs/operate/web-servers"
_PROGRAMS = f"{os.environ['PATH']}:/usr/sbin:/sbin"
"""Where Debian keeps servers is not in everybody's PATH."""


class Places(NamedTuple):
    """What stands in a test where the pages name a production machine's ports, sockets and files."""

    folder: Path
    certificate: Certificate
    sidecar: str
    django: str
    publishers: str = ""
    metrics: str = ""
    seconds: int = 75
    """The time-out of what is idle."""

    def in_place(self, text: str) -> str:
        """The text of a page with this machine's addresses and files; all else is as it is printed."""
        found = dict(self._words())
        words = re.compile("|".join(re.escape(word) for word in sorted(found, key=len, reverse=True)))
        return words.sub(lambda match: found[match[0]], text)

    def _words(self) -> Mapping[str, str]:
        folder = str(self.folder)
        return {
            "127.0.0.1:8800": self.sidecar,
            "127.0.0.1:8000": self.django,
            "127.0.0.1:8801": self.publishers,
            "check port 9100": f"check port {self.metrics.rpartition(':')[2]}",
            "metrics://127.0.0.1:9100": f"metrics://{self.metrics}",
            "/run/live/": f"{folder}/",
            "/srv/site/static": f"{folder}/static",
            "/etc/ssl/live/chain.pem": str(self.certificate.cert),
            "/etc/ssl/live/key.pem": str(self.certificate.key),
            "/etc/haproxy/live.pem": f"{folder}/live.pem",
            # The client's time-outs, so that a test need not wait for a minute.
            "75s": f"{self.seconds}s",
            "    Timeout 75": f"    Timeout {self.seconds}",
        }


class Front(Program):
    """A web server on free ports; ``port`` is the one of clients, ``publishers_port`` 0 where there is none.

    ``words`` maps what the configuration names as its own ports and files to what they are here. Each must be there.
    """

    signal_of_reload: ClassVar[signal.Signals]
    files: ClassVar[dict[str, str]] = {}
    """Files and lines of the program's own, to those in its folder; ``{folder}`` is that."""
    words: ClassVar[tuple[str, ...]] = ()
    """How the configuration says that it listens, the port as ``{port}``; the first is for clients."""

    def __init__(self, text: str, places: Places, ports: Mapping[int, int], argv: list[str]) -> None:
        self.folder = places.folder / f"{type(self).__name__.lower()}-{free_port()}"
        self.folder.mkdir(mode=0o755)
        self.ports = dict(ports)
        self.port = next(iter(ports.values()))
        self.certificate = places.certificate
        text = places.in_place(text)
        for port, here in ports.items():
            text = self._listening(text, port, here)
        for word, here in self.files.items():
            assert word in text, f"the page has no {word!r} any more"
            text = text.replace(word, here.format(folder=self.folder))
        self.file = self.folder / "conf"
        self.file.write_text(text)
        argv[0] = shutil.which(argv[0], path=_PROGRAMS) or argv[0]
        super().__init__([word.format(file=self.file, folder=self.folder) for word in argv], {}, "")

    def _listening(self, text: str, port: int, here: int) -> str:
        for form in self.words:
            said = form.format(port=port)
            if said in text:
                return text.replace(said, form.format(port=here).replace("*:", "127.0.0.1:"))
        raise AssertionError(f"the page does not listen on {port}")

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            until(lambda: self.process.poll() is not None or all(map(_is_open, self.ports.values())), 20)
            assert self.process.poll() is None, self.output
        except BaseException:
            self.__exit__()
            raise
        return self

    def reload(self) -> None:
        """Read the configuration anew, and return when new processes serve it."""
        before = _children(self.process.pid)
        self.process.send_signal(self.signal_of_reload)
        until(lambda: _children(self.process.pid) - before, 20)
        until(lambda: all(map(_is_open, self.ports.values())), 20)

    @property
    def trusting(self) -> ssl.SSLContext:
        """The TLS side of a client."""
        return self.certificate.trusting()

    def client(self, **more: Any) -> WireClient:
        """A WebSocket through it."""
        return WireClient(f"127.0.0.1:{self.port}", **{"tls": self.trusting} | more)

    def publisher(self, **more: Any) -> WirePublisher:
        """A publisher through its second port."""
        return WirePublisher(f"127.0.0.1:{[*self.ports.values()][1]}", tls=self.trusting, **more)

    def session(self, kind: str, source: str) -> Session:
        """A session over HTTP through it: a ``stream``, or by ``poll``."""
        where = f"127.0.0.1:{self.port}"

        def caller() -> Caller:
            return Caller(where, tls=self.trusting, source=source)

        return ProxiedSession(where, caller) if kind == "stream" else PollSession(where, poster=caller)

    @contextmanager
    def answer(self, path: str, source: str = "", **headers: str) -> Iterator[HTTPResponse]:
        """The answer to a GET over TLS, of which nothing but the head is read yet; ``x_y`` is the header ``x-y``."""
        connection = HTTPSConnection(
            "127.0.0.1", self.port, context=self.trusting, timeout=10, source_address=(source, 0) if source else None
        )
        try:
            connection.request("GET", path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()


class Nginx(Front):
    """nginx with one of the two files of its page."""

    signal_of_reload = signal.SIGHUP
    words = ("listen {port} ",)
    files = {"/run/nginx.pid": "{folder}/pid", "/var/log/nginx/": "{folder}/"}

    def __init__(self, text: str, places: Places, ports: Mapping[int, int]) -> None:
        if os.geteuid() != 0:  # folders that Debian's nginx has for the bodies of requests are root's
            kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            own = "".join(f"    {kind}_temp_path {places.folder}/{kind};\n" for kind in kinds)
            text = text.replace("http {\n", f"http {{\n{own}")
        super().__init__(text, places, ports, ["nginx", "-e", "stderr", "-c", "{file}", "-g", "daemon off;"])

    def _listening(self, text: str, port: int, here: int) -> str:
        return super()._listening(text, port, here).replace(f"listen {here} ", f"listen 127.0.0.1:{here} ")


class HAProxy(Front):
    """HAProxy with one of the two files of its page."""

    signal_of_reload = signal.SIGUSR2
    words = ("bind :{port}\n", "bind :{port} ")
    files = {"maxconn 60000": "maxconn 2000"}  # more files than a machine of tests may open

    def __init__(self, text: str, places: Places, ports: Mapping[int, int]) -> None:
        if os.geteuid() != 0:
            text = text.replace("    user haproxy\n    group haproxy\n", "")
        live = places.folder / "live.pem"
        live.write_bytes(places.certificate.cert.read_bytes() + places.certificate.key.read_bytes())
        super().__init__(text, places, ports, ["haproxy", "-W", "-db", "-f", "{file}"])

    def _listening(self, text: str, port: int, here: int) -> str:
        return super()._listening(text, port, here).replace(f"bind :{here}", f"bind 127.0.0.1:{here}")


class Apache(Front):
    """Apache with the site of its page, in the place of Debian's file around it."""

    signal_of_reload = signal.SIGUSR1
    words = ("<VirtualHost *:{port}>",)
    files = {"/var/log/apache2/": "{folder}/"}
    modules = "mpm_event authz_core mime filter deflate"
    """What Debian loads by itself; the others are on the page."""

    def __init__(self, text: str, places: Places, ports: Mapping[int, int], extra: str = "") -> None:
        page = f"{PAGES}/apache.md"
        enabled = re.findall(r"^a2enmod (.+)$", one(page, "sh", "a2enmod"), re.MULTILINE)[0]
        names = [*self.modules.split(), *enabled.split(), *(["remoteip"] if extra else [])]
        around = [f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in names]
        around += [f"ServerRoot {places.folder}", f"DefaultRuntimeDir {places.folder}", "ServerName localhost"]
        around += [f"PidFile {places.folder}/apache-{next(iter(ports.values()))}.pid", "Mutex posixsem"]
        around += ["TypesConfig /etc/mime.types", "ErrorLog /dev/stderr"]
        around += ["SetOutputFilter DEFLATE"]  # more than Debian compresses: streams must not be
        around += [f"Listen 127.0.0.1:{port}" for port in ports.values()]
        if os.geteuid() == 0:
            around += ["User www-data", "Group www-data"]
        around += [one(page, "apache", "MaxRequestWorkers"), extra]
        super().__init__("\n".join([*around, text]), places, ports, ["apache2", "-DFOREGROUND", "-f", "{file}"])


def nginx_site(places: Places, *, unix: bool = False) -> Nginx:
    """The whole site behind nginx."""
    page = f"{PAGES}/nginx.md"
    text = one(page, "nginx", "    server {\n        listen 443 ssl")
    if unix:
        for upstream in re.findall(r"^    upstream \w+ \{.*?^    \}$", one(page, "nginx", "unix:"), re.DOTALL | re.M):
            name = upstream.split()[1]
            text, count = re.subn(rf"^    upstream {name} \{{.*?^    \}}$", upstream, text, flags=re.DOTALL | re.M)
            assert count == 1
    return Nginx(text, places, {443: free_port(), 80: free_port()})


def nginx_stream(places: Places) -> Nginx:
    """Clients and publishers behind nginx's ``stream``."""
    return Nginx(one(f"{PAGES}/nginx.md", "nginx", "stream {"), places, {8843: free_port(), 8844: free_port()})


def haproxy_site(places: Places) -> HAProxy:
    """The whole site behind HAProxy."""
    return HAProxy(one(f"{PAGES}/haproxy.md", "haproxy", "mode http"), places, {443: free_port(), 80: free_port()})


def haproxy_tcp(places: Places) -> HAProxy:
    """Clients and publishers behind HAProxy, with the proxy protocol."""
    text = one(f"{PAGES}/haproxy.md", "haproxy", "mode tcp")
    return HAProxy(text, places, {8843: free_port(), 8844: free_port()})


def apache_site(places: Places, *, unix: bool = False, behind: str = "") -> Apache:
    """The whole site behind Apache; ``behind`` is the address of the proxy before it."""
    page = f"{PAGES}/apache.md"
    text = one(page, "apache", "<VirtualHost *:443>")
    if unix:
        for line in one(page, "apache", "unix:").splitlines(keepends=True):
            path = re.escape(line.split()[1])
            text, count = re.subn(rf"^ +ProxyPass {path} .*\n", line.replace("\\", r"\\"), text, flags=re.MULTILINE)
            assert count == 1, line
    extra = one(page, "apache", "RemoteIPHeader").replace("10.0.0.0/8", behind) if behind else ""
    return Apache(text, places, {443: free_port(), 80: free_port()}, extra)


def listeners(page: str) -> list[str]:
    """What the pages say that the sidecar listens on, one text for each command that says so."""
    found = [
        re.findall(r"^export FASTPATH_LISTEN='(.*)'$", block.text, re.M)
        for block in read(page)
        if block.language == "sh"
    ]
    return [text for texts in found for text in texts]


def _children(pid: int) -> set[str]:
    """Of all its threads, which come and go."""
    found: set[str] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found |= set(path.read_text().split())
    return found


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
