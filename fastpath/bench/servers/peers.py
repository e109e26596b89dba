"""The other servers that ours is compared with: found, configured in a temporary folder, started and stopped.

Ours as a broker of MQTT is among them, spoken to just as Mosquitto is.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fastpath.core.protocol.errors import FastpathError

from ..machine.processes import family, free_ports, settle, stop
from . import channels_peer

READY_SECONDS_MAX = 15
NGINX_MODULES = ("/usr/lib/nginx/modules", "/usr/share/nginx/modules", "/usr/lib64/nginx/modules")
NCHAN = "ngx_nchan_module.so"


class PeerError(FastpathError):
    """A peer did not start; the text has the end of its log."""


@dataclass(frozen=True)
class PeerPlace:
    """The place where a peer runs: its folder and the two ports that are free for it, TCP and WebSocket."""

    folder: Path
    port: int
    ws_port: int
    connections_max: int


@dataclass(frozen=True)
class Peer:
    """One server and how it is spoken to.

    ``prepare`` writes its configuration and returns the command that runs it in the foreground; ``missing`` says in
    a few words what is not installed, or is empty. ``dialect`` is its name among the generator's dialects,
    ``websocket`` which of the two ports that speaks to.
    """

    name: str
    title: str
    dialect: str
    websocket: bool
    install: str
    missing: Callable[[], str]
    prepare: Callable[[PeerPlace], list[str]]
    slow: bool = False
    """True if the peer takes a hundredth of the load: it gets small runs."""


@dataclass(frozen=True)
class Running:
    """A peer that accepts connections on ``127.0.0.1:port``; ``pids`` are its processes."""

    peer: Peer
    port: int
    pids: list[int]


@contextlib.contextmanager
def run(peer: Peer, core: int | None = None) -> Iterator[Running]:
    """Start a peer on free ports, pinned to a CPU core, and stop it; what it wrote goes with it.

    Raises PeerError when it is not installed (with the command that installs it) or does not begin to listen.
    """
    missing = peer.missing()
    if missing:
        raise PeerError(word(peer, missing))
    folder = Path(tempfile.mkdtemp(prefix=f"fp-{peer.name}-"))
    process: subprocess.Popen[bytes] | None = None
    try:
        connections_max = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        tcp_port, ws_port = free_ports(2)
        place = PeerPlace(folder, tcp_port, ws_port, min(connections_max, 1_000_000) - 200)
        command = peer.prepare(place)
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=settle(core)
            )
        port = ws_port if peer.websocket else tcp_port
        _wait_ready(peer, process, port, log)
        yield Running(peer, port, family(process.pid))
    finally:
        if process is not None:
            stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def word(peer: Peer, missing: str) -> str:
    """Return the line that stands in the place of a peer that cannot run."""
    return f"{peer.title}: skipped, {missing}; install it with: {peer.install}"


def find_program(name: str) -> str | None:
    """Find a program on the PATH; also beside it, since an ordinary user's PATH lacks the sbin where Debian puts
    servers."""
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    beside = [str(Path(folder).with_name("sbin")) for folder in folders if Path(folder).name == "bin"]
    return shutil.which(name, path=os.pathsep.join(folders + beside)) if folders else None


def _program(name: str) -> str:
    found = find_program(name)
    if found is None:
        raise PeerError(f"{name} is not on the PATH")
    return found


def _lacks(name: str) -> Callable[[], str]:
    return lambda: "" if find_program(name) else f"no {name} on the PATH"


def _lacks_nchan() -> str:
    if not find_program("nginx"):
        return "no nginx on the PATH"
    return "" if _nchan_module() else f"nginx has no {NCHAN}"


def _lacks_channels() -> str:
    absent = [name for name in ("channels", "daphne") if find_spec(name) is None]
    return f"no {' and '.join(absent)} in this Python" if absent else ""


def _nchan_module() -> Path | None:
    return next((path for folder in NGINX_MODULES if (path := Path(folder) / NCHAN).exists()), None)


def _mosquitto(place: PeerPlace) -> list[str]:
    """Run with unbounded queues for quality 0: a message that the peer drops would make its deliveries look cheap."""
    config = place.folder / "mosquitto.conf"
    config.write_text(
        f"listener {place.port} 127.0.0.1\nprotocol mqtt\nlistener {place.ws_port} 127.0.0.1\nprotocol websockets\n"
        f"allow_anonymous true\nset_tcp_nodelay true\npersistence false\nlog_type error\nlog_dest stderr\n"
        f"max_queued_messages 0\nmax_inflight_messages 0\nuser {_user()}\n"
    )
    return [_program("mosquitto"), "-c", str(config)]


def _own_mqtt(place: PeerPlace) -> list[str]:
    """Run our own server, spoken to as Mosquitto is."""
    settings = {
        "FASTPATH_LISTEN": f"mqtt://127.0.0.1:{place.port},clients://127.0.0.1:{place.ws_port}",
        "FASTPATH_CONTROL": str(place.folder / "control"),
        "FASTPATH_MODE": "none",
        "FASTPATH_WORKERS": "1",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    return ["/usr/bin/env", *(f"{name}={value}" for name, value in settings.items()), sys.executable, "-m", "fastpath"]


def _nats(place: PeerPlace) -> list[str]:
    config = place.folder / "nats.conf"
    config.write_text(
        f"listen: 127.0.0.1:{place.port}\nmax_connections: {place.connections_max}\nmax_pending: 1073741824\n"
        'write_deadline: "60s"\n'
        f'websocket {{ listen: "127.0.0.1:{place.ws_port}", no_tls: true, compression: false }}\n'
    )
    return [_program("nats-server"), "-c", str(config)]


def _redis(place: PeerPlace) -> list[str]:
    return [
        _program("redis-server"),
        *("--bind", "127.0.0.1", "--port", str(place.port), "--dir", str(place.folder), "--save", ""),
        *("--appendonly", "no", "--maxclients", str(place.connections_max), "--tcp-backlog", "4096"),
        *("--client-output-buffer-limit", "pubsub 0 0 0", "--daemonize", "no", "--loglevel", "warning"),
        # It holds no other address than 127.0.0.1 for a local one, and the generator uses several.
        *("--protected-mode", "no"),
    ]


def _nchan(place: PeerPlace) -> list[str]:
    """Run one worker; a subscriber may name several channels, split by commas, in one address."""
    folder = place.folder
    paths = "".join(
        f"  {name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "scgi", "uwsgi")
    )
    config = folder / "nginx.conf"
    config.write_text(f"""\
load_module {_nchan_module()};
user {_user()};
daemon off;
pid {folder}/nginx.pid;
error_log stderr error;
worker_processes 1;
worker_rlimit_nofile {place.connections_max};
events {{ worker_connections {place.connections_max - 100}; }}
http {{
  access_log off;
{paths}  nchan_shared_memory_size 512M;
  server {{
    listen 127.0.0.1:{place.ws_port} backlog=4096;
    location ~ ^/pub/(.+)$ {{
      nchan_publisher websocket;
      nchan_channel_id $1;
      nchan_message_timeout 10s;
    }}
    location ~ ^/sub/(.+)$ {{
      nchan_subscriber websocket;
      nchan_channel_id $1;
      nchan_channel_id_split_delimiter ",";
      nchan_subscriber_first_message newest;
    }}
  }}
}}
""")
    return [_program("nginx"), "-p", str(folder), "-c", str(config), "-e", "stderr"]


def _channels(place: PeerPlace) -> list[str]:
    """Run with the same Python, which has Channels and Daphne; the benchmark itself imports neither."""
    (place.folder / "project.py").write_text(channels_peer.PROJECT)
    bind = ("-b", "127.0.0.1", "-p", str(place.ws_port))
    return [sys.executable, "-m", "daphne", "-v", "0", *bind, "project:application"]


def _user() -> str:
    """Return who runs this: nginx and Mosquitto, started by root, would else change to a user that cannot read the
    folder."""
    import pwd  # noqa: PLC0415 - of this one line's concern, and absent where there are no such servers

    return pwd.getpwuid(os.getuid()).pw_name


def _wait_ready(peer: Peer, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    ended = process.poll()
    why = f"did not listen within {READY_SECONDS_MAX} s" if ended is None else f"ended with status {ended}"
    raise PeerError(f"{peer.title} {why}: {log.read_text(errors='replace')[-800:]}")


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "nchan", "Nchan", "nchan", True,
            "apt-get install nginx libnginx-mod-nchan", _lacks_nchan, _nchan,
        ),
        Peer("redis", "Redis", "redis", False, "apt-get install redis-server", _lacks("redis-server"), _redis),
        Peer("nats", "NATS TCP", "nats", False, "apt-get install nats-server", _lacks("nats-server"), _nats),
        Peer("nats-ws", "NATS WebSocket", "nats-ws", True, "apt-get install nats-server", _lacks("nats-server"), _nats),
        Peer("mosquitto", "Mosquitto TCP", "mqtt", False, "apt-get install mosquitto", _lacks("mosquitto"), _mosquitto),
        Peer(
            "mosquitto-ws", "Mosquitto WebSocket", "mqtt-ws", True,
            "apt-get install mosquitto", _lacks("mosquitto"), _mosquitto,
        ),
        Peer("fastpath-mqtt", "Fastpath MQTT TCP", "mqtt", False, "make setup", str, _own_mqtt),
        Peer("fastpath-mqtt-ws", "Fastpath MQTT WebSocket", "mqtt-ws", True, "make setup", str, _own_mqtt),
        Peer(
            "channels", "Channels + Daphne", "channels", True,
            "pip install channels daphne", _lacks_channels, _channels, slow=True,
        ),
    )
}  # fmt: skip
"""Every peer by the name that ``--peers`` takes."""
