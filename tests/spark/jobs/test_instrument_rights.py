"""Who has no right to an instrument learns nothing of it: every byte of a user's sockets is searched."""

from __future__ import annotations

import json
import re
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client, override_settings
from pyspark.sql import SparkSession
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from entitlement import conf, tokens
from entitlement.following import compiler
from entitlement.models import Action, Effect, Rule
from fastpath.client.control.client import Control
from fastpath.client.publisher.publisher import Publisher
from realtime.demo.instruments import instrument, instruments, market
from realtime.demo.seed import seed
from spark.jobs import running
from spark.jobs.desk import job
from spark.progress import Reports
from tests.support.entitlement.live import RunningAgent
from tests.support.prices import NOON
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("light"),
]

FIRST = {"GE": 100, "KO": 300, "MSFT": 5_000, "AMD": 7_000}
"""The first price of each, so far from the others that a price tells whose it is; Bob may see the first two."""
LATER = {"GE": 100, "KO": 10_000, "MSFT": 5_000, "AMD": 7_000}
"""As it goes on after KO was denied."""
SECONDS = 75
WIDE = ["/**", "/*/us/*", "/*/*/*/*", "/stocks/**", "/movers/**", "/alerts/us/*", "/__sys__/**", "/__sys__/jobs/*"]
KINDS = {"stocks", "movers", "alerts", "bars-1s", "bars-1m", "bars-1d"}
END_SECONDS_MAX = 90


class Tap:
    """A socket of a user; `heard` is every message of the WebSocket as it came."""

    def __init__(self, url: str, token: str, *commands: dict[str, Any]) -> None:
        self.heard: list[bytes] = []
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(url))
        for number, command in enumerate([{"op": "connect", "token": token}, *commands], 1):
            self._socket.send(json.dumps(command | {"id": number}))
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._thread.join()

    def _listen(self) -> None:
        try:
            for data in self._socket:
                self.heard.append(data.encode() if isinstance(data, str) else data)
        except ConnectionClosed:
            return

    def prices(self, first: dict[str, int]) -> set[str]:
        """Whose prices are anywhere in what was heard: numbers with cents, from a third below to a third above."""
        found = [float(number) for number in re.findall(rb"\d+\.\d\d", b"\n".join(self.heard))]
        return {symbol for symbol, price in first.items() if any(price / 1.33 < each < price * 1.33 for each in found)}

    def kinds(self, symbol: str) -> set[str]:
        """Which kinds of subjects of an instrument it was told of."""
        return {each.decode() for each in re.findall(rf'"/([^/"]+)/us/{symbol}"'.encode(), b"\n".join(self.heard))}


def subjects(config: Any) -> list[str]:
    """Every subject and pattern that the board is told of."""
    if isinstance(config, str):
        return [config] if config.startswith("/") else []
    return [one for each in (config.values() if isinstance(config, dict) else config) for one in subjects(each)]


@pytest.fixture
def sidecar(settings: Any) -> Iterator[Sidecar]:
    """With the demonstration's rules, which an agent brings."""
    assert not getattr(connection, "is_in_memory_db", bool)(), "the agent's thread needs a database in a file"
    seed()
    with Sidecar(mode="rules", token_secret=conf.token_secret(), cache_messages=5000) as running_one:
        settings.REALTIME = settings.REALTIME | {"CONTROL": running_one.control}
        with RunningAgent(running_one.control):
            sync(running_one)
            yield running_one


def sync(sidecar: Sidecar) -> None:
    """Wait until the sidecar has what the database has."""
    with Control(sidecar.control) as control:
        until(lambda: control.hello()["generation"] == compiler.position().generation)


def token_of(name: str) -> str:
    """Of a user of the demonstration."""
    return tokens.mint(get_user_model().objects.get(username=name))[0]


def publish(publisher: Publisher, first: dict[str, int], begin: int) -> None:
    """Two prices a second of each: they rise, and jump at the end, so that there is a move and an alert."""
    rows = []
    for step in range(SECONDS * 2):
        for symbol, price in first.items():
            now = price * (1 + step / 2000) * (1.2 if step == SECONDS * 2 - 1 else 1)
            fields = {"sent": str(begin + step * 500), "volume": "700", "change": f"{now - price:.2f}"}
            rows.append([f"/stocks/us/{symbol}", f"{now:.2f}", fields])
    publisher.send_batch(rows)
    publisher.flush()


def work(session: SparkSession, sidecar: Sidecar, checkpoint: Path) -> None:
    """The jobs publish what they make of all prices that are there, and report how they got on."""
    words = ["--url", sidecar.publisher_url, "--once", "--start", "earliest"]
    reports = Reports(sidecar.publisher_url, running.token())
    for name, kind in (("bars", job.of_bars), ("movers", job.of_movers), ("alerts", job.of_alerts)):
        options: Namespace = running.parse(name, "", running.streaming_arguments, job.arguments(kind), words)
        queries = job.start(name)(session, options, str(checkpoint))
        for query in queries:
            assert query.awaitTermination(END_SECONDS_MAX)
        reports.tell(queries)
    reports.close()


@contextmanager
def taps(sidecar: Sidecar) -> Iterator[tuple[Tap, Tap]]:
    """Bob at the board, with all that its page subscribes to, and Bob with patterns that cover everything."""
    wanted = [each["subject"] for each in instruments()] + subjects(market())
    with ExitStack() as stack:
        board, wide = (
            stack.enter_context(
                Tap(sidecar.client_url, token_of("bob"), {"op": "subscribe", "subjects": names, "history": 1000})
            )
            for names in (wanted, WIDE)
        )
        yield board, wide


def reached(publisher: Publisher, taps: tuple[Tap, Tap], mark: str) -> None:
    """Wait until both have heard the mark, which comes after all that was published."""
    publisher.send_batch([["/stocks/us/GE", "101.00", {"mark": mark}]])
    publisher.flush()
    for tap in taps:
        until(lambda tap=tap: any(mark.encode() in each for each in list(tap.heard)), 20)


def unasked(board: Tap) -> bytes:
    """All but the answers that name again what was asked for by name, each of which is a subject and an error."""
    kept = []
    for each in board.heard:
        frame = json.loads(each)
        if isinstance(frame, dict) and frame["op"] == "subscribed" and "id" in frame:
            denied = [result for result in frame["results"] if result.get("error") == "denied"]
            assert denied and all(result["reason"].startswith("no rule") for result in denied)
            frame["results"] = [result for result in frame["results"] if result not in denied]
            each = json.dumps(frame).encode()
        kept.append(each)
    return b"\n".join(kept)


def snapshots(sidecar: Sidecar, symbol: str) -> dict[str, int]:
    """How the REST API answers Bob about each kind."""
    client = Client()
    client.force_login(get_user_model().objects.get(username="bob"))
    with override_settings(REALTIME=settings.REALTIME | {"RELAY_URL": sidecar.client_url}):
        return {
            kind: client.get(
                "/snapshot", {"subject": f"/{kind}/us/{symbol}"}, headers={"host": "localhost"}
            ).status_code
            for kind in KINDS
        }


def test_one_rule_gives_an_instrument_and_one_takes_it(
    session: SparkSession, sidecar: Sidecar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bob never hears a price of the NASDAQ's, whatever he subscribes to, nor one of KO after one denial of it."""
    monkeypatch.setenv(running.TOKEN_VARIABLE, token_of("spark"))
    with Publisher(sidecar.publisher_url, running.token()) as publisher:
        publish(publisher, FIRST, NOON)
        work(session, sidecar, tmp_path)
        with Control(sidecar.control) as control:
            told = {row[0] for row in control.subjects(limit=1000)["subjects"]}
        with taps(sidecar) as (board, wide):
            reached(publisher, (board, wide), "first")
            for tap in (board, wide):
                assert tap.prices(FIRST) == {"GE", "KO"}
            for heard in (unasked(board), b"\n".join(wide.heard)):
                assert not re.findall(rb"MSFT|AMD|Microsoft|Advanced", heard)
        assert {f"/{kind}/us/{symbol}" for kind in KINDS for symbol in FIRST} <= told, "the jobs told of all of them"
        assert "/__sys__/jobs/movers" in told
        assert wide.kinds("KO") == board.kinds("KO") == KINDS
        assert set(snapshots(sidecar, "MSFT").values()) == {403}
        assert snapshots(sidecar, "KO")["movers"] == 200

        with taps(sidecar) as (board, wide):
            reached(publisher, (board, wide), "second")
            Rule.objects.create(
                group=Group.objects.get(name="NYSE desk"),
                pattern=instrument("KO"),
                action=Action.SUBSCRIBE,
                effect=Effect.DENY,
            )
            sync(sidecar)
            publish(publisher, LATER, NOON + SECONDS * 1000)
            work(session, sidecar, tmp_path)
            reached(publisher, (board, wide), "third")
            for tap in (board, wide):
                assert tap.prices(LATER) == {"GE"}
        with Control(sidecar.control) as control:
            move = control.snapshot("/movers/us/KO", token_of("spark"))["message"]
        assert 9_000 < float(move["fields"]["price"]) < 13_000, "the job went on with it"
        assert set(snapshots(sidecar, "KO").values()) == {403}
        with taps(sidecar) as (board, wide):
            reached(publisher, (board, wide), "fourth")
            assert board.prices(FIRST | LATER) == wide.prices(FIRST | LATER) == {"GE"}
            assert b"KO" not in b"\n".join(wide.heard)
