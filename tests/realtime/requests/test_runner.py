"""The project's responders answer real sidecars, in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from fastpath.client import NoResponders, Reply, ResponderError, ResponderGone, blocking
from realtime.requests import runner
from realtime.requests.responders import Responders
from tests.support.realtime.answering import responders as answering
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def project() -> Responders:
    """The responders of an app, found anew."""
    found = Responders()
    found.add("/answers/**", answering.answer)
    found.add("/answers/longer/*", answering.longer)
    return found


@pytest.fixture
def asking(sidecar: Sidecar, project: Responders) -> Iterator[blocking.BlockingClient]:
    """A client of a sidecar that they answer."""
    stop = threading.Event()
    threads = runner.start(project, [sidecar.control], stop, 2)
    with blocking.connect(sidecar.client_url) as client:
        until(lambda: answered(client))
        yield client
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def answered(client: blocking.BlockingClient) -> bool:
    """Whether somebody answers."""
    try:
        return client.request("/answers/x", "").content == ""
    except (NoResponders, ResponderGone):
        return False


def test_what_responders_return_and_raise(asking: blocking.BlockingClient, caplog: pytest.LogCaptureFixture) -> None:
    assert asking.request("/answers/x", b"\xff", fields={"f": "1"}) == Reply(b"\xff", {"user": "", "f": "1"})
    assert asking.request("/answers/nothing", "x") == Reply("", {})
    assert asking.request("/answers/longer/x", "y").content == "async 'y'"
    assert asking.request("/answers/users", "").content == "0", "with a database"
    replies = asking.request("/answers/three", "3", replies=9)
    assert [(reply.content, reply.fields.get("n")) for reply in replies] == [("1", None), (b"2", "two"), ("3", None)]
    with pytest.raises(ResponderError, match="no_such_stock: there is no ZZZ"):
        asking.request("/answers/error", "")
    for subject in ("/answers/fault", "/answers/number"):
        with pytest.raises(ResponderError, match="error: the responder failed"):
            asking.request(subject, "")
    assert "a secret" in caplog.text


def test_what_nobody_waits_for_any_more_is_not_begun(asking: blocking.BlockingClient) -> None:
    """Both threads are busy, a third request's time is over before one is free."""
    answering.released.clear()
    waiting = [threading.Thread(target=lambda: asking.request("/answers/wait", "")) for _ in range(2)]
    for thread in waiting:
        thread.start()
    assert all(answering.began.acquire(timeout=10) for _ in waiting)
    with pytest.raises(TimeoutError):
        asking.request("/answers/x", "late", timeout=0.3)
    answering.released.set()
    for thread in waiting:
        thread.join(PATIENCE_SECONDS)
    assert asking.request("/answers/x", "again").content == "again"


@pytest.mark.slow
def test_a_node_that_is_back_is_answered_again(sidecar: Sidecar, asking: blocking.BlockingClient) -> None:
    sidecar.kill()
    sidecar.start()
    with blocking.connect(sidecar.client_url) as client:
        until(lambda: answered(client))
