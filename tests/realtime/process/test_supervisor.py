"""The supervisor with small programs as its children: restarts, failures, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

from tests.support.processes import descendants, running
from tests.support.realtime.server import Program
from tests.support.waiting import until

SUPERVISE = """
import os, sys
from realtime.process.supervisor import Child, Supervisor, StartFailed, Stopped
def child(name, program, **more):
    return Child(name, [sys.executable, "-u", "-c", program], lambda: dict(os.environ), **more)
try:
    with Supervisor(lambda line: print(line, flush=True)) as supervisor:
        {body}
        print("up", flush=True)
        supervisor.run()
except (StartFailed, Stopped) as error:
    print(type(error).__name__, error, flush=True)
print("down", flush=True)
"""


def supervise(*lines: str, ready: str = "^up$") -> Program:
    """A program that supervises."""
    program = SUPERVISE.format(body="\n        ".join(lines))
    return Program([sys.executable, "-c", program], {}, f"(?m){ready}")


def stopped(program: Program, number: signal.Signals = signal.SIGTERM) -> int:
    """Send a signal and wait for the end: its status; nothing that it started is left."""
    pids = descendants(program.process.pid)
    program.process.send_signal(number)
    status = program.wait()
    until(lambda: not running(pids))
    return status


def test_what_ends_is_started_again() -> None:
    """At once, once more after that."""
    sleeper = "import time; print('pid'); time.sleep(1.2); raise SystemExit(3)"
    with supervise(f'supervisor.start(child("sleeper", "{sleeper}", ready="pid", restart_seconds=0))') as program:
        until(lambda: program.output.count("sleeper | pid") >= 3, 30)
        assert "sleeper ended (exit status 3)" in program.output
        assert "starting sleeper again at once" in program.output
        assert stopped(program) == 0
        assert "down" in program.output


def test_what_fails_at_its_start_is_reported_with_its_last_lines() -> None:
    """The pause doubles, the others run on."""
    with supervise(
        'supervisor.start(child("steady", "import time; time.sleep(60)"))',
        'supervisor.start(child("bad", "raise SystemExit(\'no such database\')", ready="never", '
        "restart_seconds=0.05), wait=False)",
    ) as program:
        until(
            lambda: (
                "bad has failed at its start 5 times in a row; its last lines:\n    no such database" in program.output
            ),
            30,
        )
        pauses = re.findall(r"^starting bad again in (.*)$", program.output, re.MULTILINE)
        assert pauses[:5] == ["0.05 s", "0.1 s", "0.2 s", "0.4 s", "0.8 s"]
        assert "steady ended" not in program.output
        assert stopped(program) == 0


def test_a_child_that_cannot_start_ends_the_start() -> None:
    """With its words, and what was started before is ended."""
    with supervise(
        'supervisor.start(child("first", "import time; time.sleep(60)"))',
        'supervisor.start(child("second", "raise SystemExit(\'the port is taken\')", ready="never"))',
        ready="^down$",
    ) as program:
        assert program.wait() == 0
        assert "StartFailed second ended at its start:\n    the port is taken" in program.output


def test_a_signal_during_the_start_ends_it() -> None:
    """Nobody has to wait for what gets never ready."""
    with supervise(
        'print("begun", flush=True)',
        'supervisor.start(child("slow", "import time; time.sleep(60)", ready="x"))',
        ready="^begun$",
    ) as program:
        until(lambda: descendants(program.process.pid))
        assert stopped(program, signal.SIGINT) == 0
        assert "Stopped" in program.output
        assert "Traceback" not in program.output


def test_a_hangup_restarts_those_that_want_it() -> None:
    """And no other; a pause does not apply."""
    waiting = "import os, time; print('pid', os.getpid()); time.sleep(60)"
    with supervise(
        f'supervisor.start(child("web", "{waiting}", ready="pid", restart_seconds=30, on_hangup=True))',
        f'supervisor.start(child("other", "{waiting}", ready="pid"))',
    ) as program:
        program.process.send_signal(signal.SIGHUP)
        until(lambda: program.output.count("web     | pid") == 2, 30)
        assert program.output.count("other   | pid") == 1
        assert stopped(program) == 0


def test_what_does_not_stop_is_killed_and_what_it_started_too(tmp_path: Path) -> None:
    """Also a grandchild in a session of its own that ignores SIGTERM."""
    script = tmp_path / "stubborn.py"
    script.write_text(
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; print(\"grandchild\", flush=True); time.sleep(60)'],\n"
        "                 start_new_session=True)\n"
        "time.sleep(60)\n"
    )
    with supervise(
        f'supervisor.start(child("stubborn", "exec(open({str(script)!r}).read())", ready="grandchild", '
        "stop_seconds_max=0.3))"
    ) as program:
        assert len(descendants(program.process.pid)) == 2
        assert stopped(program) == 0
        assert "stubborn did not stop within 0.3 s: killing it" in program.output


def test_a_killed_child_leaves_nothing_behind_at_its_restart() -> None:
    """Its own children would hold ports and files."""
    parent = (
        "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        "print('pid'); time.sleep(60)"
    )
    with supervise(f'supervisor.start(child("parent", "{parent}", ready="pid", restart_seconds=0))') as program:
        before = until(lambda: len(descendants(program.process.pid)) == 2 and descendants(program.process.pid))
        [first] = [pid for pid in before if descendants(pid)]
        os.kill(first, signal.SIGKILL)
        until(lambda: program.output.count("parent  | pid") == 2, 30)
        assert not running(before)
        assert stopped(program) == 0


def test_the_supervisors_own_death_leaves_nothing() -> None:
    """Even a SIGKILL, which it cannot act upon."""
    waiting = "import signal, time; signal.signal(15, signal.SIG_IGN); print('pid'); time.sleep(60)"
    with supervise(f'supervisor.start(child("one", "{waiting}", ready="pid"))') as program:
        pids = descendants(program.process.pid)
        assert pids
        program.process.kill()
        until(lambda: not running(pids))


ONCE = """
import os, sys, time
print("ready" if os.path.exists({file!r}) else "broken", flush=True)
while not os.path.exists({next!r}): time.sleep(0.01)
os.remove({next!r})
raise SystemExit(3)
"""


def test_a_child_asks_to_be_started_again_with_new_code(tmp_path: Path) -> None:
    """As often as it likes, at once; those that run the same code follow when it is ready, not while it is broken."""
    (tmp_path / "web.py").write_text(ONCE.format(file=str(tmp_path / "whole"), next=str(tmp_path / "next")))
    web = f"import runpy; runpy.run_path({str(tmp_path / 'web.py')!r})"
    steady = "import os, time; print(os.getpid()); time.sleep(600)"
    with supervise(
        f'supervisor.start(child("steady", "{steady}", on_hangup=True))',
        f'web = child("web", {web!r}, ready="ready", waiting="broken", changed_status=3, on_hangup=True)',
        "supervisor.start(web)",
    ) as program:
        assert program.output.count("web     | broken") == 1, "it is no failure of the start"
        (tmp_path / "next").touch()
        until(lambda: program.output.count("web     | broken") == 2)
        assert "restarting" not in program.output
        (tmp_path / "whole").touch()
        (tmp_path / "next").touch()
        until(lambda: program.output.count("steady  | ") == 2, 30)
        assert program.output.count("restarting steady") == 1
        assert "ended" not in program.output
        assert "restarting web" not in program.output
        assert stopped(program) == 0
