"""Rights reach every worker, and nothing opens up while the first one is replaced."""

from __future__ import annotations

from tests.support.edge.rules import rule, ruled
from tests.support.edge.spread import kill_worker, spread
from tests.support.edge.wire import WireClient
from tests.support.tokens import mint

WORKERS = 3


def wait_revoked(clients: list[WireClient]) -> None:
    """Until every client was told."""
    for client in clients:
        assert client.answer("revoked")["subjects"] == ["/r/one"]


def test_a_revoked_right_is_cut_on_every_worker() -> None:
    with (
        ruled(rule(1, "/r/**"), workers=WORKERS) as rules,
        spread(rules.sidecar, WORKERS, token=mint("alice", generation=rules.generation)) as clients,
    ):
        for client in clients.all:
            assert "sid" in client.subscribe("/r/one")[0]
        rules.publish(["/r/one", "before"])
        rules.change(removed=[1])
        rules.publish(["/r/one", "after"])
        for client in clients.all:
            assert client.next()[3] == "before"
        wait_revoked(clients.all)
        assert all(client.quiet() for client in clients.all)
        rules.change(rule(2, "/r/*"))
        for client in clients.all:
            assert client.answer("subscribed")["results"][0]["subject"] == "/r/one"
            assert client.message()[3] == "after"
        # A whole set: of many chunks, so that it takes several slices to reach the others.
        many = [rule(number, f"/x/{number}") for number in range(10, 6000)]
        rules.generation += 1
        rules.control.rules_begin(rules.generation)
        for start in range(0, len(many), 1000):
            rules.control.rules_chunk(rules=many[start : start + 1000])
        rules.control.rules_commit(rules.generation)
        wait_revoked(clients.all)
        for client in clients.all:
            assert "sid" in client.subscribe("/x/5999")[0]


def test_a_publication_is_checked_where_its_client_is() -> None:
    with (
        ruled(rule(1, "/p/yes", action="publish"), workers=2) as rules,
        spread(rules.sidecar, 2, token=mint("alice", generation=rules.generation)) as clients,
    ):
        for client in clients.all:
            answer = client.ask("publish", "published", subject="/p/yes", content="x", closure="a")
            assert answer["status"] == "ok"
            answer = client.ask("publish", "published", subject="/p/no", content="x", closure="b")
            assert (answer["status"], answer["reason"]) == ("denied", "no rule allows it")


def test_the_rights_outlive_the_first_worker() -> None:
    """The others keep them in force, and the new first worker has them from there."""
    with ruled(rule(1, "/r/one"), workers=2) as rules:
        token = mint("alice", generation=rules.generation)
        with spread(rules.sidecar, 2, token=token) as clients:
            other = clients.others[0]
            assert "sid" in other.subscribe("/r/one")[0]
            kill_worker(rules.sidecar, 0, 2)
            assert other.answer("notice")["code"] == "stale"
            assert other.answer("notice")["code"] == "fresh"
            rules.control.close()
            assert rules.control.hello()["generation"] == rules.generation
            with spread(rules.sidecar, 2, token=token) as again:
                for client in again.all:
                    one, two = client.subscribe("/r/one", "/r/two")
                    assert "sid" in one
                    assert two["error"] == "denied"
            rules.publish(["/r/one", "x"])
            assert other.message()[3] == "x"
            rules.change(removed=[1])
            wait_revoked([other])


def test_without_rules_nothing_is_open_on_any_worker() -> None:
    with ruled(workers=2) as rules, spread(rules.sidecar, 2, token=mint("alice")) as clients:
        for client in clients.all:
            [result] = client.subscribe("/r/one")
            assert result["error"] == "not_ready"
        rules.full(rule(1, "/r/one"))
        for client in clients.all:
            assert "sid" in client.answer("subscribed")["results"][0]
