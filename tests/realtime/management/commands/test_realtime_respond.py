"""From Django's command line requests are answered by what apps have in responders.py."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from fastpath.client import NoResponders, ResponderGone, blocking
from realtime.management.commands.realtime_respond import READY
from realtime.requests import responders
from tests.support.realtime.server import Program
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until


def test_without_responders_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responders, "responders", responders.Responders())
    with pytest.raises(CommandError, match=r"no responders\.py of an app"):
        call_command("realtime_respond")
    for threads in ("0", "257"):
        with pytest.raises(CommandError, match="--threads"):
            call_command("realtime_respond", "--threads", threads)


def test_it_answers_until_it_is_told_to_stop(sidecar: Sidecar) -> None:
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.support.realtime.answering.settings",
        "FASTPATH_CONTROL": sidecar.control,
    }
    command = [sys.executable, "-m", "django", "realtime_respond"]
    with blocking.connect(sidecar.client_url) as client:
        with Program(command, environment, ready=rf"{READY} /answers/\*\*, /answers/longer/\*") as program:

            def answer() -> Any:
                try:
                    return client.request("/answers/longer/x", "y").content
                except (NoResponders, ResponderGone):
                    return None

            def nobody() -> bool:
                try:
                    client.request("/answers/longer/x", "y")
                except ResponderGone:  # the sidecar has not yet seen its end
                    return False
                except NoResponders:
                    return True
                return False

            assert until(answer) == "async 'y'"
            program.process.send_signal(signal.SIGTERM)
            assert program.process.wait(PATIENCE_SECONDS) == 0
        until(nobody)
