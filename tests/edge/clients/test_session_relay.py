"""Sessions over HTTP on several workers: any of them takes a request for the session of any other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from tests.support.edge.sessions import Caller, Kind, PollSession, StreamSession, caller_at
from tests.support.edge.spread import figures_by_worker, kill_worker, publisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

WORKERS = 3


@pytest.fixture(scope="module")
def workers() -> Iterator[Sidecar]:
    with Sidecar(mode="none", workers=WORKERS) as sidecar:
        yield sidecar


def session_at(sidecar: Sidecar, kind: Kind, worker: int, asks: int) -> StreamSession | PollSession:
    """A session of one worker, whose requests another one takes."""

    def caller() -> Caller:
        return caller_at(sidecar, asks)

    if kind is PollSession:
        with caller_at(sidecar, worker) as opener:
            return PollSession(sidecar, opener=opener, poster=caller)
    while True:
        session = StreamSession(sidecar, poster=caller)
        if session.worker == worker:
            return session
        session.__exit__()


@pytest.mark.parametrize("kind", [StreamSession, PollSession])
def test_any_worker_takes_the_requests_of_any_session(workers: Sidecar, kind: Kind) -> None:
    with publisher(workers) as sender:
        for worker, asks in product(range(WORKERS), repeat=2):
            subject = f"/relay/{kind.__name__}/{worker}/{asks}"
            with session_at(workers, kind, worker, asks) as session:
                assert session.worker == worker
                session.subscribe(subject)
                sender.publish([subject, "from outside"])
                assert session.texts(1) == ["from outside"]
                for number in range(5):
                    session.say("publish", subject=subject, content=str(number))
                assert session.texts(5) == [str(number) for number in range(5)]
                assert session.post({"op": "ping", "id": 1}, first=99).status == 409
                assert session.poster.ask("DELETE", f"/session/{session.id}").status == 204
                assert session.post({"op": "ping", "id": 1}).status == 404


def test_a_worker_that_is_not_there_has_no_sessions(workers: Sidecar) -> None:
    for asks in range(WORKERS):
        with caller_at(workers, asks) as caller:
            for session in ("7-abc", "0-abc", "1-abc", "x", "99999-a"):
                told = caller.ask("POST", f"/session/{session}?n=1", b"{}", Content_Type="text/plain")
                assert (told.status, told.body["code"]) == (404, "no_session")


def test_who_asks_a_worker_that_dies_is_told(workers: Sidecar) -> None:
    with caller_at(workers, 1) as opener:
        session = PollSession(workers, opener=opener, poster=lambda: caller_at(workers, 2))
    with session:
        session.subscribe("/relay/dies")
        session.poller.connection.request("GET", session.path)
        until(lambda: sum(one["polls_held"] for one in figures_by_worker(workers)) == 1)
        kill_worker(workers, 1, WORKERS)
        assert session.poller.answer().status == 404
        assert session.post({"op": "ping", "id": 1}).status == 404
