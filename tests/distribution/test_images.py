"""The images as an engine builds them, Buildah, on a Debian 12 with its Python in the place of the base; and run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.containers import FOLDER, stages
from tests.support.realtime.server import ROOT
from tests.support.wheel import EPOCH, build
from tools import release

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(3600)]

BASE_PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"
MEGABYTES_MAX = {"sidecar": 80, "web": 180}
"""Of what an image adds to its base."""

RUN = """
set -e
root=$1 script=$2
shift 2
ip link set lo up
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
for folder in tmp run/fastpath var/lib/fastpath srv/site/var; do mount -t tmpfs -o mode=1777 tmpfs "$root/$folder"; done
for device in null urandom; do : >"$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
chroot=$(command -v chroot)  # where the image's own PATH does not lead
mount -o remount,bind,ro "$root"
exec env -i "$@" "$chroot" "$root" setpriv --reuid "${IMAGE_USER%:*}" --regid "${IMAGE_USER#*:}" --clear-groups \\
    --no-new-privs --bounding-set -all --inh-caps -all sh -c "$script"
"""
"""The rest of the engine: the image's root that cannot be written, its user, no capability, a network of its own."""

SERVE = """
set -e
cd {folder}
{before}
{command} &
number=0
until {health} 2>/tmp/health; do
    number=$((number + 1))
    if [ $number -gt 300 ] || ! kill -0 $!; then cat /tmp/health; exit 1; fi
    sleep 0.2
done
grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs)' /proc/$!/status
if (: >/opt/fastpath/written) 2>/dev/null; then echo 'the root can be written'; exit 1; fi
{ask}
kill $!
wait $!
echo 'served and ended'
"""
ASK = """python -c "
from fastpath.client.blocking import connect
with connect('ws://127.0.0.1:8800/ws') as client:
    print('number', client.publish('/image/one', 'x').seq)
"
"""


class Engine:
    """Buildah, with a store of its own."""

    def __init__(self, folder: Path) -> None:
        self._options = ["--storage-driver", "vfs", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
        self.context = folder / "context"

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            ["buildah", *self._options, *words],
            env=os.environ | {"BUILDAH_ISOLATION": "chroot"},
            capture_output=True,
            text=True,
            timeout=2400,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def build(self, target: str) -> dict[str, Any]:
        """Build an image as docs/operate/containers.md has it, but for the engine's name; return what it says of
        itself."""
        (words,) = re.findall(
            rf"^docker build (.*--target {target} .*) \.$", (FOLDER.parent / "containers.md").read_text(), re.MULTILINE
        )
        given = words.replace("docs/", f"{self.context}/docs/").split()
        self("build", "--format", "docker", "--pull-never", "--layers=false", *given, str(self.context))
        return dict(json.loads(self("inspect", "--type", "image", f"fastpath-{target}"))["Docker"]["config"])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """It has the base, and what a release says that images are built from."""
    folder = tmp_path_factory.mktemp("engine")
    engine = Engine(folder)
    archive = folder / "images.tar.gz"
    release.tarball(archive, release.images(build(tmp_path_factory.mktemp("dist"))), int(EPOCH))
    engine.context.mkdir()
    subprocess.run(["tar", "-C", str(engine.context), "-xzf", str(archive)], check=True, timeout=60)
    argv = [str(ROOT / "tools/bare_machine.sh"), "--only", BASE_PACKAGES, "--script", str(ROOT / "NOTICE")]
    done = subprocess.run([*argv, "--keep", "true"], capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0, done.stderr
    (machine,) = re.findall(r"kept in (\S+)", done.stderr)
    try:
        (Path(machine) / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        container = engine("from", "scratch")
        engine("copy", "-q", container, f"{machine}/", "/")
    finally:
        shutil.rmtree(machine)
    engine("commit", "-q", container, stages()["base"].base)
    engine("rm", container)
    yield engine
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", ["sidecar", "web"])
def test_an_image_is_built_and_serves(engine: Engine, name: str) -> None:
    """It says what the file says, and does its work with no more than the compose file gives it."""
    says, stage = engine.build(name), stages()[name]
    assert (says["User"], says["Cmd"]) == (stage.rest("USER"), stage.command("CMD"))
    assert says["Healthcheck"]["Test"] == ["CMD", *stage.command("HEALTHCHECK")]
    assert {port.partition("/")[0] for port in says["ExposedPorts"]} == set(stage.rest("EXPOSE").split())
    container = engine("from", "--pull-never", f"fastpath-{name}")
    root = Path(engine("mount", container))
    size = subprocess.run(["du", "-sm", str(root / "opt/fastpath")], capture_output=True, text=True, check=True).stdout
    assert int(size.split()[0]) <= MEGABYTES_MAX[name]
    assert not list(root.glob("opt/fastpath/lib/python3*/site-packages/pip"))
    assert bool(list(root.glob("opt/fastpath/lib/python3*/site-packages/django"))) == (name == "web")
    script = SERVE.format(
        folder=says["WorkingDir"],
        before="" if name == "sidecar" else "python manage.py migrate -v0",
        command=shlex.join(says["Cmd"]),
        health=shlex.join(says["Healthcheck"]["Test"][1:]),
        ask=ASK if name == "sidecar" else "",
    )
    given = ["FASTPATH_TOKEN_SECRET=" + "0f" * 32, "SITE_SECRET_KEY=" + "5a" * 32, "SITE_CONTROL=/run/fastpath/a.sock"]
    given += ["SITE_SERVERS=ws://localhost:8800/ws", "SITE_RELAY=ws://localhost:8800/ws", "FASTPATH_MODE=none"]
    argv = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "bash", "-c", RUN, "bash", str(root)]
    done = subprocess.run(
        [*argv, script, *says["Env"], *given],
        env=os.environ | {"IMAGE_USER": says["User"]},
        capture_output=True,
        text=True,
        timeout=600,
    )
    engine("rm", container)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "served and ended" in done.stdout
    assert re.search(r"CapEff:\s+0+\nCapBnd:\s+0+\nNoNewPrivs:\s+1\n", done.stdout), done.stdout
    assert re.search(rf"Uid:\s+{says['User'].partition(':')[0]}\s", done.stdout)
    assert name == "web" or "number 1" in done.stdout
