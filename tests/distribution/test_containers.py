"""The container files of docs/operate/containers, without an engine: read strictly, and their commands run here."""

from __future__ import annotations

import importlib.metadata
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands
from packaging.requirements import Requirement

from tests.support.containers import COMPOSE, FOLDER, SERVICES, stages
from tests.support.ports import free_port
from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import until
from tests.support.wheel import PROJECT, build

PAGE = FOLDER.parent / "containers.md"
ABSENT = ("django", "channels", "daphne", "rest_framework", "pyspark", "pyarrow")
MEGABYTES_MAX = 80
"""Of what the sidecar needs: 55 when this was written, of which 30 are cryptography and uvloop."""


def pinned(path: Path) -> dict[str, str]:
    """The versions in a file of requirements, by name."""
    lines = [line.partition(";")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return dict(line.split("==") for line in lines if "==" in line and line[0] != "#")


def test_what_is_copied_is_there() -> None:
    """The wheel apart, which `make dist` brings; what comes of a stage comes of an earlier one."""
    known: list[str] = []
    ignored = (FOLDER / "Containerfile.dockerignore").read_text(encoding="utf-8")
    sent = tuple(re.findall(r"^!(.*)$", ignored, re.MULTILINE))
    for name, stage in stages().items():
        assert stage.base in known or stage.base.startswith("docker.io/library/python:3."), name
        for rest in [rest for word, rest in stage.steps if word == "COPY"]:
            *sources, _ = rest.split()
            if sources[0].startswith("--from="):
                assert sources[0].removeprefix("--from=") in known, rest
                assert sources[1:] == ["/opt/fastpath"]
            else:
                assert [one for one in sources if one != "dist/*.whl" and not (ROOT / one).exists()] == []
                assert [one for one in sources if not one.startswith(sent)] == []
        known.append(name)
    assert known[-2:] == ["web", "sidecar"]
    assert "out=${1:-dist}" in (ROOT / "tools/dist.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["web", "sidecar"])
def test_an_image_is_no_roots_and_says_how_it_is(name: str) -> None:
    stage = stages()[name]
    uid = re.search(r"--uid (\d+)", stages()["base"].rest("RUN"))
    assert uid
    assert stage.rest("USER") == f"{uid[1]}:{uid[1]}"
    assert "/healthz" in stage.command("HEALTHCHECK")[2]
    assert stage.command("CMD")[:2] == ["python", "-m"]


@pytest.mark.parametrize("name", ["sidecar.txt", "web.txt"])
def test_an_image_has_the_versions_that_are_tested(name: str) -> None:
    """And all that the distribution asks for, where Django is."""
    given, tested = pinned(FOLDER / name), pinned(ROOT / "requirements.txt")
    assert given.items() <= tested.items()
    names = {one.partition("[")[0].lower() for one in given}
    if name == "web.txt":
        assert {Requirement(text).name.lower() for text in PROJECT["dependencies"]} <= names
    else:
        assert not names & set(ABSENT)


def test_no_service_may_write_or_do_more_than_it_must() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), f"{name} is for this machine until somebody says otherwise"


def test_what_a_service_names_is_there() -> None:
    """Targets, files, volumes, commands, and each secret in the page that says how to make it."""
    targets, volumes = stages(), set(COMPOSE["volumes"])
    for name, service in SERVICES.items():
        if "build" in service:
            context = (FOLDER / service["build"]["context"]).resolve()
            assert context == ROOT
            assert (context / service["build"]["dockerfile"]).is_file()
            assert service["build"]["target"] in targets
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (FOLDER / source).resolve().is_file() if source.startswith(".") else source in volumes, (
                name,
                volume,
            )
        if service.get("command", [""])[:2] == ["python", "manage.py"]:
            assert service["command"][2] in get_commands()
    text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
    secrets = set(re.findall(r"\$\{(\w+)", text))
    assert secrets == set(re.findall(r"^(\w+)=\$\(openssl", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


def test_redis_is_where_the_sidecars_look_for_it() -> None:
    """All addresses are of the one network; each server is told its own."""
    own = {name: one["networks"]["site"]["ipv4_address"] for name, one in SERVICES.items() if "redis" in one["image"]}
    for name, address in own.items():
        kind = "redis" if name.startswith("redis") else "sentinel"
        assert SERVICES[name]["command"][2:4] == [kind, address]
    sentinels = ",".join(f"{address}:26379" for name, address in own.items() if name.startswith("sentinel"))
    for name in ("sidecar-a", "sidecar-b"):
        assert f"@{sentinels}/fastpath?" in SERVICES[name]["environment"]["FASTPATH_ENGINE"]
    assert f"monitor fastpath {own['redis-a']} 6379 2" in (FOLDER / "sentinel.conf").read_text(encoding="utf-8")
    assert SERVICES["redis-b"]["command"][4:] == [own["redis-a"]]


@pytest.mark.prometheus
def test_prometheus_can_read_its_configuration(tmp_path: Path) -> None:
    """It asks the sidecars of the file."""
    configuration = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = configuration["scrape_configs"]
    names = [target.partition(":")[0] for target in job["static_configs"][0]["targets"]]
    assert names == [name for name in SERVICES if name.startswith("sidecar")]
    for path in (FOLDER / "prometheus.yml", FOLDER.parent / "grafana" / "alerts.yml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    subprocess.run(["promtool", "check", "config", str(tmp_path / "prometheus.yml")], check=True, timeout=60)


def test_grafana_finds_its_dashboard() -> None:
    """The provider's folder is where the file is mounted."""
    provider = yaml.safe_load((FOLDER / "grafana-dashboards.yml").read_text(encoding="utf-8"))["providers"][0]
    mounted = [volume.split(":") for volume in SERVICES["grafana"]["volumes"]]
    assert ["../grafana/fastpath.json", f"{provider['options']['path']}/fastpath.json", "ro"] in mounted
    source = yaml.safe_load((FOLDER / "grafana-datasources.yml").read_text(encoding="utf-8"))["datasources"][0]
    assert source["url"].split("/")[2].partition(":")[0] in SERVICES


def needed(names: list[str]) -> set[str]:
    """Distributions that are installed here, and all that they need, by name; extras of theirs are taken as asked."""
    found: set[str] = set()
    ahead = [Requirement(name) for name in names]
    while ahead:
        one = ahead.pop()
        if one.name.lower() in found:
            continue
        found.add(one.name.lower())
        for text in importlib.metadata.requires(one.name) or ():
            more = Requirement(text)
            extras = [{"extra": extra} for extra in one.extras] or [{"extra": ""}]
            if more.marker is None or any(more.marker.evaluate(extra) for extra in extras):
                ahead.append(more)
    return found


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A venv with what the sidecar's image has and nothing else, the packages linked from this environment."""
    folder = tmp_path_factory.mktemp("bare")
    venv = [words for word, words in stages()["packages"].steps if word == "RUN"]
    assert venv == ["/usr/local/bin/python -m venv --without-pip /opt/fastpath"]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    (site,) = folder.glob("lib/python3*/site-packages")
    for name in needed(list(pinned(FOLDER / "sidecar.txt"))):
        for file in importlib.metadata.files(name) or ():
            top = file.parts[0]
            if top not in {"..", "__pycache__"} and not (site / top).exists():
                (site / top).symlink_to(Path(str(file.locate())).parents[len(file.parts) - 1] / top)
    wheel = build(tmp_path_factory.mktemp("dist"))
    (install,) = [words for word, words in stages()["sidecar-packages"].steps if "--no-index" in words]
    options = [word for word in shlex.split(install) if word in {"--no-deps", "--no-index"}]
    argv = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "-q", *options, str(wheel)]
    subprocess.run(argv, check=True, timeout=100)
    return folder


@pytest.mark.slow
def test_the_sidecars_image_needs_no_django(bare: Path, tmp_path: Path) -> None:
    """What it runs and how it is asked for its health, in an empty folder; small, and without what it does not need."""
    python, stage = str(bare / "bin" / "python"), stages()["sidecar"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FASTPATH_", "PYTHON"))}
    program = f"import importlib.util; print([name for name in {ABSENT} if importlib.util.find_spec(name)])"
    options: dict[str, Any] = {"cwd": tmp_path, "env": kept, "capture_output": True, "text": True, "timeout": 60}
    assert subprocess.run([python, "-c", program], **options).stdout.strip() == "[]"
    assert "The Fastpath sidecar" in subprocess.run([python, "-m", "fastpath", "--help"], **options).stdout
    (site,) = bare.glob("lib/python3*/site-packages")
    size = subprocess.run(["du", "-sLm", str(site)], **options).stdout.split()[0]
    assert int(size) <= MEGABYTES_MAX
    port = free_port()
    given = dict(pair.partition("=")[::2] for pair in stage.rest("ENV").split())
    assert "metrics://*:9100" in given["FASTPATH_LISTEN"]
    given["FASTPATH_LISTEN"] = f"clients://127.0.0.1:0,publishers://127.0.0.1:0,metrics://127.0.0.1:{port}"
    given["FASTPATH_CONTROL"] = str(tmp_path / "c.sock")
    given["FASTPATH_TOKEN_SECRET"] = "s" * 64
    _, *asking = [word.replace("9100", str(port)) for word in stage.command("HEALTHCHECK")]
    with Program([python, *stage.command("CMD")[1:]], given, "ready {", 30, folder=tmp_path, base=kept):
        assert subprocess.run([python, *asking], **options).returncode == 0
    assert subprocess.run([python, *asking], **options).returncode != 0, "it would say"


class Composed:
    """The services of compose.yaml that are made of what is here, on loopback addresses of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.network = f"127.{random.randint(10, 250)}.{random.randint(0, 250)}."
        self.secrets = {"REDIS_PASSWORD": "0f" * 16, "FASTPATH_TOKEN_SECRET": "5e" * 32, "SITE_SECRET_KEY": "5a" * 32}
        self.ports = {name: free_port() for name in ("sidecar-a", "sidecar-b")}
        (folder / "etc").mkdir()
        for name in ("redis.conf", "sentinel.conf"):
            (folder / "etc" / name).write_text(self.here((FOLDER / name).read_text(encoding="utf-8")))

    def here(self, text: str, data: str = "/data") -> str:
        """A text of the files with this place's addresses, folders and secrets."""
        for name, value in self.secrets.items():
            text = re.sub(rf"\$\{{{name}(:\?)?\}}", value, text)
        text = text.replace("172.30.0.", self.network).replace("/etc/fastpath/", f"{self.folder}/etc/")
        for name, port in self.ports.items():
            text = text.replace(f"ws://{name}:8800/", f"ws://127.0.0.1:{port}/")
        return text.replace("/run/fastpath/", f"{self.folder}/").replace("/data", data)

    def redis(self, name: str) -> Program:
        """A server or a Sentinel, by the command of the file."""
        data = self.folder / name
        data.mkdir(exist_ok=True)
        script = self.folder / f"{name}.sh"
        script.write_text(self.here((FOLDER / "start-redis.sh").read_text(encoding="utf-8"), str(data)))
        for kind in ("redis", "sentinel"):  # where it keeps its files
            conf = self.folder / "etc" / f"{kind}.conf"
            conf.write_text(re.sub(r"^dir .*", f"dir {data}", conf.read_text(), flags=re.MULTILINE))
        _, _, *arguments = SERVICES[name]["command"]
        ready = "Ready to accept connections" if name.startswith("redis") else "Sentinel ID is"
        return Program(["sh", str(script), *map(self.here, arguments)], self.secrets, ready, 30, folder=data)

    def ask(self, name: str, *command: str) -> str:
        """What a Redis server answers."""
        address = self.here(SERVICES[name]["networks"]["site"]["ipv4_address"])
        argv = ["redis-cli", "-h", address, *command]
        return subprocess.run(
            argv, env=os.environ | {"REDISCLI_AUTH": self.secrets["REDIS_PASSWORD"]}, capture_output=True, text=True,
            timeout=20,
        ).stdout  # fmt: skip

    def environment(self, name: str) -> dict[str, str]:
        """What the file gives a service."""
        return {key: self.here(value) for key, value in SERVICES[name]["environment"].items()}

    def sidecar(self, name: str) -> Program:
        """One of the two, on a port of its own."""
        listen = f"clients://127.0.0.1:{self.ports[name]},publishers://127.0.0.1:0"
        given = self.environment(name) | {"FASTPATH_LISTEN": listen, "FASTPATH_WORKERS": "1"}
        return Program([sys.executable, *stages()["sidecar"].command("CMD")[1:]], given, "ready {", 60)

    @property
    def site(self) -> dict[str, str]:
        """The environment of Django's services, with the project of the image in a copy of its own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FASTPATH_", "DJANGO_"))}
        paths = f"{self.folder / 'site'}:{ROOT}"
        return kept | self.environment("web") | {"PYTHONPATH": paths, "DJANGO_SETTINGS_MODULE": "mysite.settings"}

    def manage(self, *arguments: str) -> str:
        """``manage.py`` of the site."""
        argv = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(argv, cwd=self.folder / "site", env=self.site, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.mark.slow
@pytest.mark.redis
@pytest.mark.timeout(300)
def test_the_services_are_one_site_also_after_a_fail_over(tmp_path: Path) -> None:
    """What is published comes to both nodes; all Redis servers, started again, know who became the primary."""
    composed = Composed(tmp_path)
    subprocess.run(["cp", "-r", str(FOLDER / "site"), str(tmp_path / "site")], check=True)
    (tmp_path / "site" / "var").mkdir()
    servers = [name for name in SERVICES if name.startswith(("redis", "sentinel"))]
    with ExitStack() as rest, ExitStack() as stack:
        running = {name: stack.enter_context(composed.redis(name)) for name in servers}
        for name in composed.ports:
            rest.enter_context(composed.sidecar(name))
        composed.manage(*SERVICES["migrate"]["command"][2:], "-v0")
        composed.manage("entitlement_rules", "allow", "everyone", "/scores/**")
        agent = [sys.executable, *SERVICES["agent"]["command"][1:]]
        rest.enter_context(Program(agent, {}, "", folder=tmp_path / "site", base=composed.site))
        publish = "from realtime import publish; print(publish('/scores/final', '1:0').seq)"
        assert composed.manage("shell", "-v0", "-c", publish).strip() == "1"
        assert composed.manage("realtime_nodes").count(" redis ") == 2
        running["redis-a"].process.kill()
        until(lambda: "role:master" in composed.ask("redis-b", "info", "replication"), 60)
        stack.enter_context(composed.redis("redis-a"))
        until(lambda: "state=online" in composed.ask("redis-b", "info", "replication"), 60)
        assert composed.manage("shell", "-v0", "-c", publish).strip() == "2"
        stack.close()
        for name in servers:
            rest.enter_context(composed.redis(name))
        until(lambda: "role:slave" in composed.ask("redis-a", "info", "replication"), 60)
        until(lambda: "state=online" in composed.ask("redis-b", "info", "replication"), 60)
        assert composed.manage("shell", "-v0", "-c", publish).strip() == "3"


def test_the_linter_finds_no_fault(tmp_path: Path) -> None:
    """Hadolint, with everything that it knows, down to matters of style."""
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert program, "`make setup-tests` installs it"
    argv = [program, "--no-color", "--failure-threshold", "style", str(FOLDER / "Containerfile")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    worse = tmp_path / "Containerfile"
    worse.write_text((FOLDER / "Containerfile").read_text().replace("WORKDIR /srv/site", "WORKDIR srv"))
    assert "DL3000" in subprocess.run([*argv[:-1], str(worse)], capture_output=True, text=True, timeout=60).stdout
