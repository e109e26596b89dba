"""The layout of docs/operate/dmz.md, from its own files: a sidecar behind two firewalls; the inner lets nobody in."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fastpath.settings import load
from tests.chaos.boxes import Box, Net
from tests.chaos.machine import no_namespaces
from tests.support.certificates import Certificate
from tests.support.edge.wire import Ended, WireClient
from tests.support.guide import one
from tests.support.realtime.server import Program
from tests.support.sidecar import ROOT, Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow

PAGE = "docs/operate/dmz.md"
USER = "nobody"
SUBJECT = "/prices/eurusd"


class Site:
    """The page's three places, as boxes: the internet is where this test runs, beyond the DMZ's outer leg."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        net = Net(2)
        stack.callback(net.close)
        self.dmz, self.inside = net.boxes
        self.web = f"{net.outer}.250"
        subprocess.run(["ip", "-n", self.dmz.name, "addr", "add", f"{self.web}/24", "dev", "run"], check=True)
        subprocess.run([*self.inside.inside, "ip", "link", "set", "run", "down"], check=True)  # no way but the DMZ
        self.names = {
            "203.0.113.10": self.dmz.outer,
            "10.20.0.2": self.dmz.inner,
            "10.30.0.0/16": f"{self.inside.inner}/32",
            "/etc/fastpath": str(folder),
            "/run/fastpath": str(folder),
            "/var/lib/fastpath": str(folder / "data"),
            'user = "fastpath"': f'user = "{USER}"',
            "outer0": "run",
            "inner0": "data",
        }
        self.site = Certificate(folder)
        shutil.copy(self.site.cert, folder / "site.pem")
        shutil.copy(self.site.key, folder / "site.key")
        self.run(one(PAGE, "bash", "# where the authority is kept"))
        self.run(one(PAGE, "bash", "# DMZ machine"), self.dmz)
        self.run(one(PAGE, "bash", "# inside: what was begun"), self.inside)
        (folder / "fastpath.toml").write_text(self.own(one(PAGE, "toml", "# /etc/fastpath/fastpath.toml")))
        (folder / "publish.py").write_text(self.own(one(PAGE, "python", "# publish.py")))
        self.secret = "0123456789abcdef0123456789abcdef"
        control = re.findall(r'REALTIME_CONTROL="(.*)"', self.own(one(PAGE, "bash", "# /etc/fastpath/inside.env")))
        self.environment = {
            "REALTIME_CONTROL": control[0],
            "REALTIME_VAR": str(folder / "var"),
            "REALTIME_DATABASE": str(folder / "db.sqlite3"),  # a file that both sides see stands for the database
            "FASTPATH_TOKEN_SECRET": self.secret,
            "PYTHONPATH": str(ROOT),
        }
        for path in (folder, *folder.iterdir()):
            os.chown(path, pwd.getpwnam(USER).pw_uid, -1)

    def own(self, text: str) -> str:
        """The page's text with the addresses, folders and users of this test."""
        for name, own in self.names.items():
            text = text.replace(name, own)
        return text

    def run(self, script: str, box: Box | None = None) -> None:
        """A block of the page, in bash."""
        before = box.inside if box is not None else []
        subprocess.run([*before, "bash", "-ec", self.own(script)], cwd=self.folder, check=True, capture_output=True)

    def program(self, box: Box, *arguments: str) -> list[str]:
        """A command of Python in a box."""
        return [*box.inside, sys.executable, *arguments]

    def manage(self, *arguments: str) -> str:
        """A command of Django, inside."""
        done = subprocess.run(
            self.program(self.inside, str(ROOT / "manage.py"), *arguments),
            env=os.environ | self.environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def publish(self, box: Box, token: str, seconds: float = 20) -> subprocess.CompletedProcess[str]:
        """The page's publisher, in a box."""
        return subprocess.run(
            self.program(box, str(self.folder / "publish.py"), token),
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def reaches(self, box: Box, host: str, port: int) -> bool:
        """Whether a connection from the box to the address comes about within a second."""
        code = f"import socket; socket.create_connection(({host!r}, {port}), 1)"
        return subprocess.run(self.program(box, "-c", code), capture_output=True, check=False).returncode == 0


@pytest.fixture
def site() -> Iterator[Site]:
    """The boxes with their firewalls and files."""
    folder = Path(tempfile.mkdtemp(prefix="fp-"))
    try:
        with ExitStack() as stack:
            yield Site(folder, stack)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_the_configuration_is_good(tmp_path: Path) -> None:
    """Also on a machine that allows no namespaces."""
    (tmp_path / "fastpath.toml").write_text(one(PAGE, "toml", "# /etc/fastpath/fastpath.toml"))
    settings = load({"FASTPATH_CONFIG": str(tmp_path / "fastpath.toml"), "FASTPATH_TOKEN_SECRET": "x" * 32})
    assert [sorted(listener.purposes) for listener in settings.listeners] == [
        ["clients"], ["publishers"], ["control"], ["metrics"]]  # fmt: skip


SETUP = """
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from entitlement.models import Rule
ann, spark = User.objects.create_user("ann"), User.objects.create_user("spark")
Rule.objects.create(user=spark, pattern="/prices/**", action="publish")
Rule.objects.create(user=ann, pattern="/prices/**", action="subscribe")
session = SessionStore()
session[SESSION_KEY], session[HASH_SESSION_KEY] = str(ann.pk), ann.get_session_auth_hash()
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session.create()
print(session.session_key)
"""


@pytest.mark.skipif(bool(no_namespaces()), reason="the test above is what can be done here")
def test_all_connections_begin_inside(site: Site) -> None:
    site.manage("migrate", "-v0")
    session = site.manage("shell", "-v0", "-c", SETUP).splitlines()[-1]
    spark = site.manage("realtime_token", "spark").split()[0]
    sidecar = Sidecar()
    sidecar.settings = {"config": site.folder / "fastpath.toml", "token_secret": site.secret, "workers": 2}
    sidecar.command = site.program(site.dmz, "-m", "fastpath")
    with sidecar, ExitStack() as stack:
        assert sidecar.ready["clients"] == [f"{site.dmz.outer}:443"]
        client = stack.enter_context(WireClient(sidecar, tls=site.site.trusting()))
        assert client.subscribe(SUBJECT)[0]["error"] == "not_ready", "it has never heard from Django"
        agent = Program(
            site.program(site.inside, str(ROOT / "manage.py"), "realtime_agent"), site.environment, ready="generation"
        )
        stack.enter_context(agent)
        ann = token_of(site, session, stack)
        client = stack.enter_context(connected(sidecar, site, ann))
        assert "error" not in client.subscribe(SUBJECT)[0]
        done = site.publish(site.inside, spark)
        assert done.returncode == 0, done.stderr
        assert client.message()[3] == "1.0842"

        # Who watches asks from inside.
        code = f"import urllib.request as u; print(u.urlopen('http://{site.dmz.inner}:9100/readyz').read().decode())"
        found = subprocess.run(site.program(site.inside, "-c", code), capture_output=True, text=True, check=True)
        assert json.loads(found.stdout) == {"status": "ok"}

        # A change of rights inside reaches the browser.
        site.manage("shell", "-v0", "-c", "from entitlement.models import Rule; Rule.objects.last().delete()")
        assert SUBJECT in client.answer("revoked")["subjects"]

        # The firewalls: from the internet there is the client port alone, from the DMZ nothing inside.
        inside = stack.enter_context(
            Program(site.program(site.inside, "-m", "http.server", "8000"), site.environment, ready="Serving")
        )
        assert inside.process.poll() is None
        assert not site.reaches(site.dmz, site.inside.inner, 8000)
        assert site.reaches(site.inside, site.dmz.inner, 9100)
        for port in (8801, 8802, 9100):
            with pytest.raises(TimeoutError):
                socket.create_connection((site.dmz.outer, port), 0.5)
        # Who is in the DMZ, and has even the certificate, may not publish.
        refused = site.publish(site.dmz, spark)
        assert refused.returncode != 0
        assert f"publishing is not allowed from {site.dmz.inner}" in refused.stderr
        assert "Traceback" not in sidecar.log


def token_of(site: Site, session: str, stack: ExitStack) -> str:
    """What the web application in the DMZ gives a browser that is signed in."""
    web = site.program(site.dmz, "-m", "realtime.web", "-b", site.web, "-p", "443", "realtime.asgi:application")
    own = {"FASTPATH_CONTROL": str(site.folder / "control.sock"), "REALTIME_CONTROL": "", "REALTIME_ALLOWED_HOSTS": "*"}
    settings = {"DJANGO_SETTINGS_MODULE": "realtime.settings"}
    stack.enter_context(Program(web, site.environment | own | settings, ready="Listening on TCP address"))
    secret = "x" * 32  # of Django's protection against forged requests: in the cookie and in the header
    headers = {"Cookie": f"sessionid={session}; csrftoken={secret}", "X-CSRFToken": secret}
    with closing(http.client.HTTPConnection(site.web, 443, timeout=PATIENCE_SECONDS)) as connection:
        connection.request("POST", "/realtime/token/", headers=headers)
        return str(json.load(connection.getresponse())["token"])


def connected(sidecar: Sidecar, site: Site, token: str) -> WireClient:
    """A signed-in client, as soon as the rights are there."""

    def attempt() -> WireClient | None:
        client = WireClient(sidecar, tls=site.site.trusting(), headers="Origin: https://www.example.com\r\n")
        try:
            client.say("connect", token=token)
            if client.next()["op"] == "connected" and "error" not in client.subscribe("/prices/other")[0]:
                return client
        except Ended:
            pass
        client.sock.close()
        return None

    return until(attempt)
