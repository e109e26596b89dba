"""Running subscriptions follow a change of rights: cut, start, or close, in slices (FEATURES E3, protocol.md 4.7)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from .errors import InvalidMessage, InvalidSubject, Refused
from .grants import NOT_READY
from .grants_rules import RuleGrants, Session, User
from .lagging import policy
from .messages import Revoked, Subscribe, Subscribed
from .rules import BOTH, PUBLISH, SUBSCRIBE, Rule, RuleSet
from .subject import check_pattern
from .wire import split_messages

if TYPE_CHECKING:
    from .client import Client
    from .subscribing import Subscriptions

T = TypeVar("T")

SLICE_CHECKS = 500
"""Subscriptions looked at in one slice: about 2 ms, after which everybody else has a turn."""


class Rights:
    """Takes the rules from Django and makes every connection follow them."""

    def __init__(self, subscriptions: Subscriptions, clients: dict[Client, None]) -> None:
        self._subscriptions = subscriptions
        self._clients = clients
        self._broker = subscriptions.broker
        self._todo: deque[Client] = deque()
        self._building: tuple[RuleSet, dict[str, User], set[str]] | None = None

    @property
    def busy(self) -> bool:
        """Whether clients wait to be looked at: call step() until there are none."""
        return bool(self._todo)

    def begin(self) -> None:
        """Start a full set beside the one in force."""
        self._building = (RuleSet(), {}, set())

    def add(self, rules: list[Any], users: list[Any], sessions: list[Any]) -> None:
        """A part of the full set; raises InvalidMessage."""
        if self._building is None:
            raise InvalidMessage("invalid", "rules_begin comes first")
        whole, people, revoked = self._building
        for rule in _rules(rules):
            whole.put(rule)
        for user in _convert(users, list[User]):
            people[user.uid] = user
        revoked.update(session.sid for session in _convert(sessions, list[Session]))

    def commit(self, generation: int, now: int) -> None:
        """The full set takes force at once; everybody is looked at again."""
        if self._building is None:
            raise InvalidMessage("invalid", "rules_begin comes first")
        self._grants().replace(*self._building, generation, now)
        self._building = None
        self._todo = deque(self._clients)

    def change(
        self,
        after: int,
        generation: int,
        rules: list[Any],
        removed: list[Any],
        users: list[Any],
        sessions: list[Any],
        now: int,
    ) -> None:
        """A difference from generation ``after``; raises InvalidMessage ``stale`` when another one is in force."""
        grants = self._grants()
        if grants.generation != after:
            raise InvalidMessage("stale", f"generation {grants.generation} is in force, not {after}")
        holders, uids, sids = grants.apply(
            _rules(rules),
            _convert(removed, list[int]),
            _convert(users, list[User]),
            _convert(sessions, list[Session]),
            generation,
            now,
        )
        self._schedule(holders, uids, sids)

    def tick(self, now: int) -> None:
        """Called often: clients that have room again, and rules whose time has come or gone."""
        crowded = self._subscriptions.crowded
        for client in [client for client in crowded if client.closed or client.queue is None]:
            del crowded[client]
            self._todo.append(client)
        if isinstance(self._broker.grants, RuleGrants):
            holders = self._broker.grants.due(now)
            if holders:
                self._schedule(holders, set(), set())

    def step(self, now: int) -> None:
        """Look at the next clients, up to a slice of work."""
        checks = 0
        while self._todo and checks < SLICE_CHECKS:
            client = self._todo.popleft()
            if not client.closed:
                checks += 1 + client.count
                self.recheck(client, now)
        split_messages.cache_clear()

    def recheck(self, client: Client, now: int) -> None:
        """Make the client's principal and subscriptions what they would be if it came now."""
        grants = self._broker.grants
        claims = client.principal.claims
        if claims is not None and isinstance(grants, RuleGrants):
            try:
                client.principal = grants.refresh(claims)
            except Refused as error:
                self._cut(client, [topic.subject for topic in client.subscriptions], "signed out or deactivated", now)
                client.link.close(error.code, f"{error.code.label}: {error.reason}")
                return
        denied: dict[str, list[str]] = {}
        for topic in client.subscriptions:
            reason = grants.check(client.principal, SUBSCRIBE, topic.subject, now)
            if reason:
                denied.setdefault(reason, []).append(topic.subject)
        for reason, subjects in denied.items():
            self._cut(client, subjects, reason, now)
        if client.waiting:
            self._start_waiting(client, now)

    def _cut(self, client: Client, subjects: list[str], reason: str, now: int) -> None:
        """Stop the subjects now, also in the client's own queue, and keep them waiting for the right."""
        if not subjects:
            return
        broker = self._broker
        broker.flush_answers()  # stored messages among them: they are purged with the queue
        topics = [broker.interest.topics[subject] for subject in subjects]
        requests = {
            topic.subject: Subscribe(
                id=0, subjects=[], conflation=client.subscriptions[topic].interval, slow=policy(client, topic)
            )
            for topic in topics
        }
        self._subscriptions.leave_all(client, topics)
        for observer in broker.observers:
            observer.unsubscribed(client, topics, reason)
        if client.queue is not None:
            client.queue.purge({topic.sid for topic in topics}, client.form)
        for subject in subjects:
            self._subscriptions.wait(client, subject, requests[subject], reason, now)
        broker.send(client, Revoked(subjects=subjects, reason=reason))

    def _start_waiting(self, client: Client, now: int) -> None:
        """Start what is allowed by now, and tell what is denied by now."""
        broker, subscriptions = self._broker, self._subscriptions
        results, stored, join = [], [], []
        broker.settle(client.group)
        room = subscriptions.room(client)
        for subject, waiting in list((client.waiting or {}).items()):
            reason = broker.grants.check(client.principal, SUBSCRIBE, subject, now)
            since = waiting.request.since.get(subject)
            behind = since is not None and now < waiting.until and broker.ahead(subject, *since)
            if not reason and (room <= 0 or behind):
                waiting.error = "not_ready"
                self._subscriptions.crowded[client] = None
            elif not reason:
                assert client.waiting is not None
                del client.waiting[subject]
                broker.counters.waiting -= 1
                result, frames, feed = subscriptions.start(client, subject, waiting.request, now)
                results.append(result)
                stored += frames.frames
                room -= sum(map(len, frames.frames))
                if feed is not None:
                    join.append(feed)
            elif waiting.error == "not_ready" and reason is not NOT_READY:
                results.append(subscriptions.wait(client, subject, waiting.request, reason, now))
        if results:
            if stored:
                broker.tell_base(client)
            broker.send(client, Subscribed(results=results), *stored)
            broker.counters.messages_out += len(stored)
            broker.move(client, join, [])

    def _schedule(self, holders: set[str], uids: set[str], sids: set[str]) -> None:
        waiting = set(self._todo)
        for client in self._clients:
            principal = client.principal
            claims = principal.claims
            if client not in waiting and (
                not holders.isdisjoint(principal.holders)
                or (claims is not None and (claims.uid in uids or claims.session in sids))
            ):
                self._todo.append(client)

    def _grants(self) -> RuleGrants:
        if not isinstance(self._broker.grants, RuleGrants):
            raise InvalidMessage("invalid", f"the sidecar runs in mode {self._broker.grants.mode}, not rules")
        return self._broker.grants


def _rules(raw: list[Any]) -> list[Rule]:
    rules = _convert(raw, list[Rule])
    for rule in rules:
        if rule.action not in (SUBSCRIBE, PUBLISH, BOTH):
            raise InvalidMessage("invalid", f"rule {rule.id}: action {rule.action!r}")
        try:
            check_pattern(rule.pattern)
        except InvalidSubject as error:
            raise InvalidMessage("invalid", f"rule {rule.id}: {error}") from None
    return rules


def _convert(raw: list[Any], kind: type[list[T]]) -> list[T]:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise InvalidMessage("invalid", str(error)) from None
