"""Root opens the low ports and becomes an ordinary user; where root does not run the tests, it is told why not."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import stat
import sys
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from fastpath.listen_address import SettingsError
from fastpath.server.privileges import drop, give_folder
from fastpath.settings import load
from tests.support.certificates import Certificate
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.sidecar import ROOT as REPOSITORY
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

USER = "nobody"
ROOT = os.geteuid() == 0
BIND_SERVICE = 1 << 10

as_root = pytest.mark.skipif(not ROOT, reason="only root can become somebody else")


def low_port() -> int:
    """A port below 1024 that is free at this moment."""
    for port in range(1023, 600, -1):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no low port is free")


def credentials(pid: int) -> dict[str, str]:
    """What the kernel says of a process: its identities and capabilities."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: " ".join(value.split()) for name, _, value in (line.partition(":") for line in lines)}


def owned(sidecar: Sidecar) -> None:
    """The sidecar's folder belongs to the user, as an operator has it."""
    entry = pwd.getpwnam(USER)
    os.chown(sidecar.folder, entry.pw_uid, entry.pw_gid)


def check_is_user(pid: int, capabilities: int) -> None:
    """The process has the user's identities, those capabilities and no way to more."""
    entry, found = pwd.getpwnam(USER), credentials(pid)
    assert found["Uid"] == " ".join([str(entry.pw_uid)] * 4)
    assert found["Gid"] == " ".join([str(entry.pw_gid)] * 4)
    assert {int(group) for group in found["Groups"].split()} <= set(os.getgrouplist(USER, entry.pw_gid))
    for kind in ("CapPrm", "CapEff"):
        assert int(found[kind], 16) == capabilities
    assert int(found["CapInh"], 16) == int(found["CapAmb"], 16) == 0
    assert found["NoNewPrivs"] == "1"


def test_only_root_can_become_somebody_else() -> None:
    """Asked in a process that is not root's, whoever runs the tests."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if ROOT:
                os.setresuid(*[pwd.getpwnam(USER).pw_uid] * 3)
            os.write(writing, _refusal("root" if ROOT else USER).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    assert told == f"FASTPATH_USER: only root can become {'root' if ROOT else USER}; leave it empty"


def _refusal(user: str) -> str:
    try:
        drop(load({"FASTPATH_USER": user, "FASTPATH_MODE": "none"}))
    except SettingsError as error:
        return str(error)
    return "it was allowed"


@as_root
def test_low_ports_are_opened_and_root_is_dropped() -> None:
    sidecar = Sidecar(user=USER, workers=2, journal="interval", audit="access")
    owned(sidecar)
    sidecar.settings["data"] = sidecar.folder / "deep" / "data"
    sidecar.settings["audit_folder"] = sidecar.folder / "audit"
    sidecar.settings["listen"] = f"clients://127.0.0.1:{low_port()},publishers://127.0.0.1:0"
    with sidecar:
        for pid in (sidecar.ready["pid"], *sidecar.ready["workers"]):
            check_is_user(pid, BIND_SERVICE)
        assert stat.S_IMODE(os.stat(sidecar.control).st_mode) == 0o600
        with WirePublisher(sidecar) as publisher:
            assert publisher.publish(["/root/one", "x"]) == [1]
        for folder in (sidecar.folder / "deep" / "data", sidecar.folder / "audit"):
            assert folder.stat().st_uid == pwd.getpwnam(USER).pw_uid
            until(lambda folder=folder: list(folder.iterdir()))
        with Control(sidecar.control) as control:
            control.drain()
            until(lambda: not serves(sidecar))
            control.undrain()
            until(lambda: serves(sidecar))  # who is no longer root opens the low port again
        first = sidecar.ready["workers"][0]
        os.kill(first, signal.SIGKILL)
        until(lambda: sidecar.log.count("worker 0 started") == 2)
        until(lambda: serves(sidecar))
        with WireClient(sidecar) as client:
            until(lambda: "error" not in client.subscribe("/root/one", history=1)[0])
            assert client.message()[3] == "x"
        assert "running as root" not in sidecar.log


@as_root
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("settings", [{"journal": "interval"}, {"journal": "off"}], ids=["journal", "memory"])
def test_who_is_to_serve_need_not_be_able_to_read_the_program(
    tmp_path: Path, workers: int, settings: dict[str, str]
) -> None:
    """It lies in root's home, for example: all that is imported late has been, while it could be."""
    shutil.copytree(REPOSITORY / "fastpath", tmp_path / "fastpath", ignore=shutil.ignore_patterns("__pycache__"))
    tmp_path.chmod(0o700)
    sidecar = Sidecar(user=USER, workers=workers, **settings)
    owned(sidecar)
    sidecar.settings["data"] = sidecar.folder / "data"
    start = f"sys.path[0] = {str(tmp_path)!r}; runpy.run_module('fastpath', run_name='__main__', alter_sys=True)"
    sidecar.command = [sys.executable, "-c", f"import runpy, sys; {start}"]
    with sidecar, WirePublisher(sidecar) as publisher:
        assert publisher.publish(["/root/two", "x"]) == [1]


def serves(sidecar: Sidecar) -> bool:
    """Whether its client port is open."""
    try:
        with WireClient(sidecar) as client:
            return bool(client.ask("ping", "pong"))
    except (OSError, Ended):  # the latter where it had been accepted when the port was closed
        return False


def test_without_low_ports_nothing_of_root_is_left() -> None:
    sidecar = Sidecar(user=USER if ROOT else pwd.getpwuid(os.geteuid()).pw_name)
    if ROOT:
        owned(sidecar)
    sidecar.settings["listen"] = f"clients+unix://{sidecar.folder}/c,publishers://127.0.0.1:0"
    with sidecar, WireClient(f"{sidecar.folder}/c") as client:
        assert client.ask("ping", "pong")
        if ROOT:
            check_is_user(sidecar.pid, 0)


@as_root
@pytest.mark.slow
def test_a_new_folder_of_the_log_is_given_to_the_user() -> None:
    """One that exists is left as it is: it may be everybody's."""
    sidecar = Sidecar(user=USER, workers=2)
    owned(sidecar)
    path = sidecar.folder / "new" / "log"
    sidecar.settings["log_file"] = path
    with sidecar:
        until(lambda: path.exists() and path.read_text().count("started, pid") == 2)
        assert path.parent.stat().st_uid == path.stat().st_uid == pwd.getpwnam(USER).pw_uid
        sidecar.stop()
        os.chown(path.parent, 0, 0)
        path.unlink()
        sidecar.start()
        until(lambda: "the log cannot be written: Permission denied" in sidecar.log_path.read_text())
        assert path.parent.stat().st_uid == 0


def test_root_without_a_user_says_so() -> None:
    with Sidecar(listen="clients://127.0.0.1:0") as sidecar:
        words = "running as root: name an ordinary user with FASTPATH_USER"
        until(lambda: "mode none" in sidecar.log)
        assert (words in sidecar.log) == ROOT


def test_nothing_behind_a_link_is_given_away(tmp_path: Path) -> None:
    """What the user may have put in the folders that are its own since the last start."""
    uid = pwd.getpwnam(USER).pw_uid if ROOT else os.geteuid()
    gid = pwd.getpwnam(USER).pw_gid if ROOT else os.getegid()
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    give_folder(data / "deep", uid, gid)
    elsewhere.mkdir()
    secret = elsewhere / "secret"
    secret.write_text("root's")
    before = {path: (path.stat().st_uid, path.stat().st_ctime_ns) for path in (elsewhere, secret)}
    (data / "audit").symlink_to(elsewhere)
    (data / "nowhere").symlink_to(elsewhere / "nowhere")
    for folder in (data / "audit", data / "audit" / "more", data / "nowhere"):
        with pytest.raises(SettingsError, match=r"lies behind the link (audit|nowhere), .* name the folder itself, /"):
            give_folder(folder, uid, gid)
    (data / "deep" / "own").write_text("the sidecar's")
    (data / "deep" / "folder").mkdir()
    (data / "deep" / "soft").symlink_to(secret)
    os.mkfifo(data / "deep" / "pipe")
    give_folder(data / "deep", uid, gid)
    assert {path: (path.stat().st_uid, path.stat().st_ctime_ns) for path in before} == before
    assert not (elsewhere / "more").exists()
    os.link(secret, data / "deep" / "hard")
    linked = secret.stat().st_ctime_ns
    give_folder(data / "deep", uid, gid)
    assert (secret.stat().st_uid, secret.stat().st_ctime_ns) == (os.geteuid(), linked)
    for given in (data / "deep", data / "deep" / "own", data / "deep" / "folder"):
        assert (given.stat().st_uid, given.stat().st_gid) == (uid, gid)


@pytest.mark.slow
def test_what_cannot_be_done_is_told(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    certificate.key.chmod(0o600)
    tmp_path.chmod(0o755)
    cases = {
        "no-such-user": ("there is no user no-such-user", "clients://127.0.0.1:0"),
        "root": ("root is no ordinary user", "clients://127.0.0.1:0"),
        USER: ("Permission denied", certificate.url("clients")),
    }
    for user, (words, listen) in cases.items():
        sidecar = Sidecar(user=user, listen=listen, control="")
        with pytest.raises(AssertionError) as error:
            sidecar.start()
        sidecar.stop()
        assert (words if ROOT else f"only root can become {user}") in str(error.value)
        assert "Traceback" not in str(error.value)
