"""Rights that end, from the moment at which a node is told until the last client of the last worker is."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from fastpath.client.control.client import Control
from fastpath.client.errors import ClientError
from tests.support.edge.rules import Rules, milliseconds, rule, ruled
from tests.support.edge.spread import figures_by_worker, spread
from tests.support.edge.users import user
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import until
from tests.workers.test_pressure import SUBJECTS, busy

from .rows import row

WORKERS = 3
SECOND = 1.0
"""A change of rights has reached every client by then (docs/reference/features.md)."""
ALL = rule(1, "/r/**", "everyone", action="both")


def full(rules: Rules, *given: dict[str, Any]) -> float:
    """Send a whole set of very many rules in chunks; the moment at which it takes force."""
    rules.generation += 1
    rules.control.rules_begin(rules.generation)
    many = [rule(number, f"/x/{number}") for number in range(10, 6000)]
    for start in range(0, len(many), 1000):
        rules.control.rules_chunk(rules=many[start : start + 1000])
    rules.control.rules_chunk(rules=given)
    began = time.monotonic()
    rules.control.rules_commit(rules.generation)
    return began


def since(began: float, clients: list[WireClient], op: str) -> float:
    """How long it took until each was told."""
    for client in clients:
        client.answer(op)
    return time.monotonic() - began


@row("right-revoked", at_most=SECOND)
def right_revoked() -> Iterator[float]:
    """A revoked right stops data within a second, with 900 rules and 10 clients of 1000 subscriptions each."""
    others = [rule(number, f"/s/{number}") for number in range(10, 900)]
    with ruled(rule(1, "/s/**"), *others) as rights, ExitStack() as stack:
        clients = [rights.client() for _ in range(10)]
        for client in clients:
            stack.callback(client.sock.close)
            client.ask("subscribe", "subscribed", subjects=[f"/s/{number}" for number in range(999)] + ["/s/x"])
        while True:
            began = time.monotonic()
            rights.change(rule(9, "/s/x", allow=False))
            yield since(began, clients, "revoked")
            rights.change(removed=[9])
            since(began, clients, "subscribed")


@row("right-revoked-workers", at_most=SECOND)
def right_revoked_workers() -> Iterator[float]:
    """The same on every worker."""
    with (
        ruled(ALL, workers=WORKERS) as rules,
        spread(rules.sidecar, WORKERS, token=mint("alice", generation=rules.generation)) as clients,
    ):
        for client in clients.all:
            client.subscribe("/r/one")
        while True:
            began = time.monotonic()
            rules.change(removed=[1])
            yield since(began, clients.all, "revoked")
            rules.change(ALL)
            since(began, clients.all, "subscribed")


@row("right-revoked-whole-set", at_most=SECOND)
def right_revoked_whole_set() -> Iterator[float]:
    """The same by a whole set of 6000 rules, on every worker."""
    with (
        ruled(ALL, workers=WORKERS) as rules,
        spread(rules.sidecar, WORKERS, token=mint("alice", generation=rules.generation)) as clients,
    ):
        for client in clients.all:
            client.subscribe("/r/one")
        while True:
            yield since(full(rules), clients.all, "revoked")
            since(full(rules, ALL), clients.all, "subscribed")


@row("right-revoked-under-load", at_most=SECOND)
def right_revoked_under_load() -> Iterator[float]:
    """The same while a publisher publishes as fast as it may."""
    with ruled(ALL, workers=2) as rules:
        root = mint("root", superuser=True, generation=rules.generation)
        token = mint("alice", generation=rules.generation)
        with spread(rules.sidecar, 2, token=token) as clients, busy(rules.sidecar, root):
            until(lambda: all(one["subjects"] > SUBJECTS for one in figures_by_worker(rules.sidecar)))
            for client in clients.all:
                client.subscribe("/r/one")
            while True:
                yield since(full(rules), clients.all, "revoked")
                since(full(rules, ALL), clients.all, "subscribed")


@row("right-revoked-take-over", at_most=SECOND)
def right_revoked_take_over() -> Iterator[float]:
    """The same by the first worker that has just taken over, while the others get their copy."""
    while True:
        with ruled(rule(1, "/r/**"), workers=2, cache_bytes=256 << 20) as rules:
            token = mint("alice", generation=rules.generation)
            with spread(rules.sidecar, 2, token=token) as clients:
                other = clients.others[0]
                other.subscribe("/r/one")
                for number in range(80):
                    rules.publish([f"/state/{number % 4}", "x" * 1_000_000])
                os.kill(rules.sidecar.ready["workers"][0], signal.SIGKILL)

                def changed(rules: Rules = rules) -> float:
                    with suppress(ClientError, OSError), Control(rules.sidecar.control) as control:
                        control.rules_diff(rules.generation, rules.generation + 1, removed=[1])
                        return time.monotonic()
                    return 0.0

                yield since(until(changed), [other], "revoked")


@row("rule-begins", at_most=SECOND)
def rule_begins() -> Iterator[float]:
    """A rule with a time begins within a second of it."""
    yield from _rule_with_a_time(begins=True)


@row("rule-ends", at_most=SECOND)
def rule_ends() -> Iterator[float]:
    """And ends within a second of it."""
    yield from _rule_with_a_time(begins=False)


def _rule_with_a_time(begins: bool) -> Iterator[float]:
    with ruled(rule(1, "/other/x")) as rights, rights.client() as client:
        client.subscribe("/s/a")
        while True:
            start, end = milliseconds(0.7), milliseconds(1.9)
            rights.change(rule(2, "/s/**", start=start, end=end))
            client.answer("subscribed")
            began = time.time() * 1000 - start
            client.answer("revoked")
            yield (began if begins else time.time() * 1000 - end) / 1000


@row("token-revoked", at_most=SECOND)
def token_revoked() -> Iterator[float]:
    """A token that is revoked by its id ends its connections on every worker, and its publisher's, within a second."""
    with ruled(ALL, workers=2, listen="clients+publishers://127.0.0.1:0") as rules:
        for number in count():
            token = mint("alice", generation=rules.generation, jti=f"t{number}")
            with spread(rules.sidecar, 2, token=token) as clients, WirePublisher(rules.sidecar, token) as publisher:
                for client in clients.all:
                    client.subscribe("/r/one")
                began = time.monotonic()
                rules.change(sessions=[{"sid": f"jti:t{number}", "generation": rules.generation + 1}])
                codes = [client.closed()[0] for client in clients.all] + [publisher.closed()[0]]
                yield time.monotonic() - began
                assert codes == [4502] * 3


@row("user-deactivated-publishers", at_most=0.5)
def user_deactivated_publishers() -> Iterator[float]:
    """A user's publishers end on every worker at once, and do not wait for the next second."""
    with ruled(ALL, workers=2, listen="clients+publishers://127.0.0.1:0") as rules:
        for number in count():
            name = f"dave{number}"
            with ExitStack() as stack:
                there: dict[str, WirePublisher] = {}
                while len(there) < 2:
                    token = mint(name, generation=rules.generation)
                    with suppress(Ended):  # the second worker gets its rights from the first
                        one = stack.enter_context(WirePublisher(rules.sidecar, token))
                        there.setdefault(one.welcome["server"], one)
                began = time.monotonic()
                rules.change(users=[user(name, rules.generation + 1, active=False)])
                codes = [one.closed()[0] for one in there.values()]
                yield time.monotonic() - began
                assert codes == [4502] * 2


@row("user-deactivated", at_most=SECOND)
def user_deactivated() -> Iterator[float]:
    """Who is deactivated is closed on every worker within a second; so ends the own subject of who is renamed."""
    with ruled(ALL, workers=2) as rules:
        for number in count():
            names = f"ann{number}", f"eve{number}"
            gone, renamed = (mint(name, generation=rules.generation) for name in names)
            with spread(rules.sidecar, 2, token=gone) as clients, spread(rules.sidecar, 2, token=renamed) as others:
                for client in others.all:
                    client.subscribe(f"/user/{names[1]}/x")
                after = rules.generation + 1
                began = time.monotonic()
                rules.change(users=[user(names[0], after, active=False), user(names[1], after, user="another")])
                codes = [client.closed()[0] for client in clients.all]
                yield since(began, others.all, "revoked")
                assert codes == [4502] * 2


@row("keys-followed", at_most=2.0)
def keys_followed() -> Iterator[float]:
    """What a key has signed that is gone from the file ends within two seconds, on every worker."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.json"
        private = Ed25519PrivateKey.generate()

        def write(keys: list[Any]) -> None:
            aside = path.with_suffix(".aside")
            aside.write_text(json.dumps({"keys": keys}))
            aside.rename(path)

        def key(one: Ed25519PrivateKey, name: str) -> Any:
            return OKPAlgorithm.to_jwk(one.public_key(), as_dict=True) | {"kid": name}

        goes, stays = key(private, "goes"), key(Ed25519PrivateKey.generate(), "stays")
        permissions = {"sub": ["/s/**"], "pub": ["/p/**"]}
        content = {"sub": "ann", "exp": int(time.time()) + 3600, "permissions": permissions}
        token = jwt.encode(content, private, "EdDSA", headers={"kid": "goes"})
        write([goes, stays])
        with Sidecar(mode="jwt", token_keys=str(path), workers=2) as sidecar, Control(sidecar.control) as control:
            while True:
                with spread(sidecar, 2, token=token) as clients:
                    write([stays])
                    began = time.monotonic()
                    codes = [client.closed()[0] for client in clients.all]
                    yield time.monotonic() - began
                    assert codes == [4007] * 2
                write([goes, stays])
                control.call("reload")
