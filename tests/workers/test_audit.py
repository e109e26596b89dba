"""Each worker writes its own files, and a listener hears the events of all of them."""

from __future__ import annotations

from pathlib import Path

from tests.support.audit import Written
from tests.support.ear import Ear
from tests.support.edge.spread import kill_worker, spread
from tests.support.sidecar import Sidecar
from tests.support.waiting import until


def test_events_of_all_workers(tmp_path: Path) -> None:
    written = Written(tmp_path)
    with Sidecar(workers=2, audit="access,message,cache", audit_folder=tmp_path, cache_messages=1) as sidecar:
        with Ear(sidecar.control, "access", "message") as ear, spread(sidecar, 2) as clients:
            [other] = clients.others
            other.subscribe("/w/a")
            assert ear.hear(event="subscribed", subject="/w/a")["worker"] == 1
            answer = other.ask("publish", "published", subject="/w/a", content="x", closure="1")
            heard = ear.hear(kind="message")
            position = (answer["epoch"], answer["seq"])
            assert (heard["worker"], heard["epoch"], heard["seq"]) == (1, *position)
            clients.first.subscribe("/w/b")
            assert ear.hear(event="subscribed", subject="/w/b")["worker"] == 0
            published = written.find(kind="message")
            assert (published["worker"], published["seq"]) == (1, answer["seq"])
            other.ask("publish", "published", subject="/w/a", content="y", closure="2")
            written.find(kind="cache", event="deleted")
            cached = [(event["event"], event["worker"]) for event in written.all(kind="cache")]
            assert cached == [("added", 0), ("added", 0), ("deleted", 0)], "the caches of the others are copies"
            assert {path.name.rpartition("-")[2] for path in tmp_path.iterdir()} == {"0.jsonl", "1.jsonl"}
        with Ear(sidecar.control, "access") as ear:
            kill_worker(sidecar, 1, 2)
            with spread(sidecar, 2) as clients:
                clients.others[0].subscribe("/w/replaced")
                assert ear.hear(event="subscribed", subject="/w/replaced")["worker"] == 1
        kill_worker(sidecar, 0, 2)
        with Ear(sidecar.control, "access") as ear, spread(sidecar, 2) as clients:
            clients.others[0].subscribe("/w/new-first")
            assert ear.hear(event="subscribed", subject="/w/new-first")["worker"] == 1
        until(lambda: written.all(subject="/w/new-first"))
        assert "Traceback" not in sidecar.log
