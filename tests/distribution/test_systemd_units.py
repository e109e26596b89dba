"""The units of docs/operate/systemd: verified by systemd's own program, of one strictness, and their commands run."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.guide import Project, one
from tests.support.ports import free_port
from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import PATIENCE_SECONDS, until

FOLDER = ROOT / "docs" / "operate" / "systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*"))
PAGE = "docs/operate/install.md"
PYTHON = "/srv/mysite/.venv/bin/python"
EXPOSURE_MAX = 3.0
"""Of 10, as ``systemd-analyze security`` counts."""


def lines(name: str) -> list[tuple[str, str, str]]:
    """Each setting of a unit as (section, name, value); nothing else is in it but comments."""
    section, found = "", []
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, separator, value = line.partition("=")
            assert section, line
            assert separator, line
            found.append((section, key, value))
    return found


def values(name: str, key: str) -> list[str]:
    """What a unit says of a setting, each time that it does."""
    return [value for _, one_key, value in lines(name) if one_key == key]


def restrictions(name: str) -> str:
    """The part of a unit that takes rights away."""
    return (FOLDER / name).read_text(encoding="utf-8").partition("# What it may do")[2]


def test_the_units_are_those_of_the_page() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert re.findall(r"^\| \[([\w-]+\.service)\]\(systemd/\1\)", text, re.MULTILINE) == [
        "fastpath.service",
        "fastpath-web.service",
        "fastpath-web-wsgi.service",
        "fastpath-agent.service",
        "fastpath-collector.service",
        "fastpath-outbox.service",
    ]
    assert len(UNITS) == 6


@pytest.mark.parametrize("name", UNITS)
def test_all_are_of_one_strictness(name: str) -> None:
    """No unit may do more than another, but for what it writes."""
    assert restrictions(name) == restrictions("fastpath.service") != ""
    assert values(name, "User") == ["fastpath"]
    assert values(name, "Restart") == ["always"]


@pytest.mark.systemd
@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_no_fault(name: str, tmp_path: Path) -> None:
    """With a program that is here in the place of the one that is installed there."""
    path = tmp_path / name
    text, count = re.subn(r"^ExecStart=/srv/\S+", "ExecStart=/bin/true", (FOLDER / name).read_text(), flags=re.M)
    assert count == 1
    path.write_text(text)
    argv = ["systemd-analyze", "verify", "--man=no", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    told = [line for line in done.stderr.splitlines() if name.partition(".")[0] in line]
    assert told == [], "units of this machine may have faults; of ours it says nothing"
    path.write_text(text.replace("WatchdogSec=", "WatchdogSecs=").replace("Restart=always", "Restart=allways"))
    assert name in subprocess.run(argv, capture_output=True, text=True, timeout=60).stderr, "it would say"


@pytest.mark.systemd
@pytest.mark.parametrize("name", UNITS)
def test_little_is_exposed(name: str) -> None:
    argv = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(FOLDER / name)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    found = re.search(rf"exposure level for {name}: ([\d.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= EXPOSURE_MAX


class Site:
    """The project of the page in a folder, and the units' commands on it."""

    def __init__(self, folder: Path) -> None:
        self.socket, self.web_port = folder / "control.sock", free_port()
        self.health_port, clients = free_port(), free_port()
        (folder / "site" / "var").mkdir(parents=True)
        self.project = Project(
            folder / "site", "", before="### What is below"
        )  # without the blocks that configure what the page does
        text = one(PAGE, "python", "REALTIME = {").replace('INSTALLED_APPS += ["realtime", "entitlement"]\n', "")
        self.project.append("mysite/settings.py", text)
        self.project.append(
            "mysite/asgi.py", one("docs/develop/django.md", "python", "application = wrap(application)")
        )
        page = one(PAGE, "sh", "FASTPATH_TOKEN_SECRET=")
        given = dict(re.findall(r"^(FASTPATH_\w+)=(.*)$", page, re.MULTILINE))
        given["FASTPATH_TOKEN_SECRET"] = "s" * 64
        for of_page, here in (("*:8800", f"127.0.0.1:{clients}"), ("8801", "0"), ("9100", str(self.health_port))):
            assert of_page in given["FASTPATH_LISTEN"]
            given["FASTPATH_LISTEN"] = given["FASTPATH_LISTEN"].replace(of_page, here)
        self.given = given | {"FASTPATH_CONTROL": str(self.socket), "FASTPATH_DATA": str(folder / "journal")}

    def environment(self, name: str) -> dict[str, str]:
        """What a unit gives its process: its own variables and those of the file, as this site has them."""
        own = dict(pair.partition("=")[::2] for text in values(name, "Environment") for pair in text.split())
        assert values(name, "EnvironmentFile") == ["/etc/fastpath/fastpath.env"]
        return own | self.given

    def start(self, name: str, ready: str, **more: str) -> Program:
        """The command of a unit, which goes on until the block ends."""
        (command,) = values(name, "ExecStart")
        program, *arguments = command.split()
        assert program == PYTHON
        arguments = [str(self.web_port) if word == "8000" else word for word in arguments]
        environment = self.environment(name) | more
        folder, base = self.project.folder, self.project.environment
        return Program([sys.executable, *arguments], environment, ready, 30, folder=folder, base=base)

    def manage(self, *arguments: str) -> str:
        """``manage.py`` with what the services are given."""
        return self.project.manage(*arguments, **self.environment("fastpath-agent.service")).stdout


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """It is migrated, and one rule is there."""
    made = Site(tmp_path)
    made.manage("migrate", "-v0")
    made.manage("entitlement_rules", "allow", "everyone", "/scores/**")
    return made


def get(url: str) -> str:
    """A page; empty while it is not served."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own server
            return str(answer.read().decode())
    except OSError:
        return ""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_commands_of_the_units_make_a_site(site: Site, tmp_path: Path) -> None:
    """What is published goes through the outbox and the sidecar to a page; systemd hears that the sidecar is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, ExitStack() as stack:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(3 * PATIENCE_SECONDS)
        begin = stack.enter_context
        begin(site.start("fastpath.service", "ready {", NOTIFY_SOCKET=str(tmp_path / "notify")))
        assert notify.recv(100) == b"READY=1"
        begin(site.start("fastpath-agent.service", ""))
        begin(site.start("fastpath-collector.service", "collecting the statistics of"))
        begin(site.start("fastpath-outbox.service", "sending the outbox of"))
        begin(site.start("fastpath-web.service", "Listening on TCP address"))
        health = f"http://127.0.0.1:{site.health_port}"
        until(lambda: '"ok"' in get(f"{health}/readyz"), 30)
        site.manage("shell", "-v0", "-c", "from realtime import publish; publish('/scores/final', '1:0')")
        page = f"http://127.0.0.1:{site.web_port}/snapshot?subject=/scores/final"
        assert '"content":"1:0"' in until(lambda: get(page), 30)
        assert get(f"http://127.0.0.1:{site.web_port}/realtime/healthz")
