"""Running subscriptions follow a change of rights: cut, start or close, in slices (features.md E3, protocol.md 4.7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..auth.reasons import PENDING
from ..auth.rule_grants import OTHERS, RuleGrants, RuleUser
from ..auth.rules import SUBSCRIBE, RuleSet
from ..broker.options_follower import OptionsFollower
from ..broker.rights_records import Fault, LeftOut, read_records
from ..delivery.audience import pattern_of
from ..delivery.slow_consumers import policy
from ..delivery.wire import split_messages
from ..protocol.errors import InvalidMessage, Refused
from ..protocol.messages import Revoked, Subscribe, Subscribed
from ..protocol.options import OptionRow
from ..protocol.subject import may_depend_on_name
from . import cohorts

if TYPE_CHECKING:
    from ..delivery.audience import Client, Group, Topic
    from .pattern_subscriptions import PatternSubscriber

SLICE_CHECKS = 500
"""Subscriptions looked at in one slice: about 2 ms, after which everybody else has a turn."""

MEMO_SHARE = 8
"""Number of answers that are known already and cost as much as one that is not."""

MEMO_MAX = 100_000
"""Answers that are kept while clients are looked at."""


class Revocation:
    """Takes the rules and the options of subjects from Django, and makes every connection follow them.

    In modes other than ``rules`` these are options alone, with a generation all the same.
    """

    def __init__(self, wildcards: PatternSubscriber, clients: dict[Client, None]) -> None:
        self._wildcards = wildcards
        self._subscriptions = subscriptions = wildcards.subscriptions
        self._clients = clients
        self._broker = subscriptions.broker
        self._todo: deque[Client] = deque()
        self._roomy: deque[Client] = deque()
        # What clients of one rights key may, while many are looked at under the same rights.
        self._memo: dict[Hashable, dict[Topic, str]] = {}
        self._followed: dict[Group, int] = {}
        self._memo_version = -1
        self._memo_size = self._checks = 0
        self._building: tuple[RuleSet, dict[str, RuleUser], dict[str, int]] | None = None
        self._building_options: list[OptionRow] = []
        self._building_told = False
        self._building_left_out = LeftOut()
        self.left_out = LeftOut()
        """Records of the rights in force that could not be read."""
        self.inherited = False
        """True while the rights are those that other workers had, and not brought by Django itself."""
        self.options = OptionsFollower(self._broker)
        self.options_told = False
        """True if who brought the rights in force knows of options: a Django of a version before them does not."""
        self._generation: int | None = None

    @property
    def generation(self) -> int | None:
        """The generation of what Django has brought; None: it has brought nothing yet."""
        grants = self._broker.grants
        return grants.generation if isinstance(grants, RuleGrants) else self._generation

    @property
    def busy(self) -> bool:
        """True while clients or subjects wait to be looked at: ``step`` is to be called until there are none."""
        return bool(self._todo or self._roomy or self._wildcards.busy or self.options.busy)

    def begin(self) -> None:
        """Start a full set beside the one in force."""
        self._building = (RuleSet(), {}, {})
        self._building_options = []
        self._building_told = False
        self._building_left_out = LeftOut()

    def add(
        self, rules: list[Any], users: list[Any], sessions: list[Any], options: Sequence[Any] | None = None
    ) -> None:
        """Add a part of the full set; raise InvalidMessage.

        ``options`` are None of who does not know of any. A record that cannot be read is left out, and all others
        count.
        """
        if self._building is None:
            raise InvalidMessage("invalid", "rules_begin comes first")
        self._check_mode(rules, users, sessions)
        whole, people, revoked = self._building
        records = read_records(rules, users, sessions, options)
        for rule in records.rules:
            whole.put(rule)
        for user in records.users:
            if ("user", user.uid) not in records.faults:
                people[user.uid] = user
            else:  # another worker may have told what stands for it
                people.setdefault(user.uid, user)
        for session in records.sessions:
            revoked.setdefault(session.sid, session.until)
        if records.options is not None:
            self._building_options += records.options
            self._building_told = True
        self._building_left_out.faults.update(records.faults)

    def commit(self, generation: int, now: int, *, inherited: bool = False) -> dict[str, Fault]:
        """Let the full set take force at once; everybody is looked at again. ``inherited``: as the attribute is.

        Returns by name what of the set could not be read, and was not known to be so.
        """
        if self._building is None:
            raise InvalidMessage("invalid", "rules_begin comes first")
        grants = self._broker.grants
        if isinstance(grants, RuleGrants):
            grants.replace(*self._building, generation, now)
            self._todo = deque(self._clients)
        self._generation = generation
        self.options.replace(self._building_options)
        self._building, self._building_options, self.options_told = None, [], self._building_told
        before, self.left_out, self._building_left_out = self.left_out, self._building_left_out, LeftOut()
        self.inherited = inherited
        return self.left_out.news(before)

    def change(
        self,
        after: int,
        generation: int,
        rules: list[Any],
        removed: list[Any],
        users: list[Any],
        sessions: list[Any],
        now: int,
        options: Sequence[Any] | None = None,
        *,
        options_told: bool = True,
    ) -> dict[str, Fault]:
        """Let a difference from generation ``after`` take force; raise InvalidMessage ``stale`` when another one is in
        force.

        ``options`` are all that there are from now on; None: they stay as they are, which nobody has said unless
        ``options_told``. Returns by name what of the difference could not be read, and was not known to be so.
        """
        self._check_mode(rules, removed, users, sessions)
        if self.generation != after:
            raise InvalidMessage("stale", f"generation {self.generation} is in force, not {after}")
        records = read_records(rules, users, sessions, options)
        gone = [number for number in removed if isinstance(number, int)]
        gone += [number for kind, number in records.faults if kind == "rule" and isinstance(number, int)]
        grants = self._broker.grants
        if isinstance(grants, RuleGrants):
            concerned = grants.apply(records.rules, gone, records.users, records.sessions, generation, now)
            self._schedule(*concerned)
        self._generation = generation
        if records.options is not None:
            self.options.replace(records.options)
        self.options_told = options_told and (self.options_told or records.options is not None)
        self.inherited = False
        return self.left_out.follow(records, gone)

    def keys_changed(self) -> None:
        """Look again at whoever came with a token, as a key does not count any more: who has one of it has to come with
        another."""
        grants = self._broker.grants
        grants.keys_changed()
        waiting = set(self._todo)
        self._todo.extend(client for client in self._clients if client.principal.claims and client not in waiting)

    def tick(self, now: int) -> None:
        """Go on with clients that have room again, and with rules whose time has come or gone; this is called often."""
        crowded = self._subscriptions.crowded
        for client in [client for client in crowded if client.closed or client.queue is None]:
            del crowded[client]
            self._roomy.append(client)
        self._wildcards.tick()
        if isinstance(self._broker.grants, RuleGrants):
            holders = self._broker.grants.due(now)
            if holders:
                self._schedule(holders, set(), set())

    def step(self, now: int) -> None:
        """Look at the next clients and subjects, up to a slice of work."""
        self.options.step()
        checks = 0
        while self._todo and checks < SLICE_CHECKS:
            client = self._todo.popleft()
            if not client.closed:
                self._checks = 1 + client.count // MEMO_SHARE
                self.recheck(client, now)
                checks += self._checks
        if not self._todo:
            self._memo.clear()
            self._followed.clear()
        while self._roomy and checks < SLICE_CHECKS:
            client = self._roomy.popleft()
            if not client.closed and client.waiting:
                checks += 1 + len(client.waiting)
                self._start_waiting(client, now)
        if checks < SLICE_CHECKS:
            self._wildcards.step(now)
        split_messages.cache_clear()

    def refresh(self, client: Client) -> bool:
        """Make the principal of a client that has gone, whose rights were not followed since, what it would be if it
        came now; whether it may come."""
        try:
            client.principal = self._broker.grants.refreshed(client.principal)
        except Refused:
            return False
        return True

    def recheck(self, client: Client, now: int) -> None:
        """Make the client's principal and subscriptions what they would be if it came now."""
        grants, before = self._broker.grants, client.principal.user
        try:
            client.principal = grants.refreshed(client.principal)
        except Refused as error:
            self._cut(client, [topic.subject for topic in client.subscriptions], error.reason, now)
            client.link.close(error.code, f"{error.code.label}: {error.reason}")
            return
        if client.principal.user != before:
            for observer in self._broker.observers:
                observer.renewed(client, before)
        if client.wilds:
            self._checks += self._wildcards.tell_rights(client, now)
        if client.group is not None and client.group.topics is not None and self._follow(client, client.group, now):
            return
        for reason, subjects in self._denied(client, now).items():
            self._cut(client, subjects, reason, now)
        if client.waiting:
            self._start_waiting(client, now)
        if client.wilds:
            self._wildcards.look_again(client)

    def _follow(self, client: Client, group: Group, now: int) -> bool:
        """Return whether the client's rights are those of all others in its group, followed once for all."""
        cohort, grants = group.cohort, self._broker.grants
        if cohort is None or grants.rights_key(client.principal, cohort.named) != cohort.name[1]:
            return False
        if self._followed.get(group) != grants.version:
            self._checks += len(group.topics or ())
            cohort.principal = grants.rights_proxy(client.principal, cohort.named)
            followed, looked = cohorts.follow(self._broker, group, self._denied(client, now), now)
            self._checks += looked
            if not followed:
                return False
            self._followed[group] = grants.version
        return True

    def _denied(self, client: Client, now: int) -> dict[str, list[str]]:
        """Return the running subscriptions that may not go on, by the reason.

        Clients of one rights key are asked for once.
        """
        grants, principal = self._broker.grants, client.principal
        rights_key = grants.rights_key(principal)
        if self._memo_version != grants.version:
            self._memo_version = grants.version
            self._memo.clear()
        known = {} if rights_key is principal else self._memo.setdefault(rights_key, {})
        denied: dict[str, list[str]] = {}
        before = len(known)
        for topic in client.subscriptions:
            if may_depend_on_name(topic.subject):  # nobody else's answer is this one's
                self._checks += 1
                reason = grants.holds(principal, topic.subject, now)
            elif (kept := known.get(topic)) is not None:
                reason = kept
            else:
                reason = known[topic] = grants.holds(principal, topic.subject, now)
            if reason:
                denied.setdefault(reason, []).append(topic.subject)
        self._checks += len(known) - before
        self._memo_size += 0 if rights_key is principal else len(known) - before
        if self._memo_size > MEMO_MAX:
            self._memo.clear()
            self._memo_size = 0
        return denied

    def answered(self, client: Client, subjects: list[str], now: int) -> None:
        """Start, keep or end these subjects, about which a hook has decided."""
        grants, topics = self._broker.grants, self._broker.interest.topics
        denied: dict[str, list[str]] = {}
        found = False
        for subject in subjects:
            topic = topics.get(subject)
            if topic is not None and topic in client.subscriptions:
                reason = grants.holds(client.principal, subject, now)
                if reason:
                    denied.setdefault(reason, []).append(subject)
            elif not (client.waiting and subject in client.waiting):
                # A pattern had found it; beyond the bound there is nothing to ask for again.
                found = found or not self._subscriptions.refusal(client)
        for reason, cut in denied.items():
            self._cut(client, cut, reason, now)
        if client.waiting:
            self._start_waiting(client, now, subjects)
        if found and client.wilds:
            self._wildcards.look_again(client)

    def _cut(self, client: Client, subjects: list[str], reason: str, now: int) -> None:
        """Stop the subjects now, also in the client's own queue, and keep them waiting for the right."""
        if not subjects:
            return
        broker = self._broker
        broker.flush_answers()  # stored messages among them: they are purged with the queue
        topics = [broker.interest.topics[subject] for subject in subjects]
        requests = {
            topic.subject: Subscribe(
                id=0, subjects=[], conflation=client.subscriptions[topic].asked, slow=policy(client, topic)
            )
            for topic in topics
        }
        patterns = {topic.subject: pattern_of(client, topic) for topic in topics} if client.wilds else {}
        self._subscriptions.leave_all(client, topics)
        for observer in broker.observers:
            observer.unsubscribed(client, topics, reason)
        if client.queue is not None:
            client.queue.purge({topic.sid for topic in topics}, client.terms.wire)
        for subject in subjects:
            self._subscriptions.wait(client, subject, requests[subject], reason, now)
            self._wildcards.cut(client, subject, patterns.get(subject, ""))
        broker.send(client, Revoked(subjects=subjects, reason=reason))

    def _start_waiting(self, client: Client, now: int, subjects: Iterable[str] | None = None) -> None:
        """Start what is allowed by now, and tell what is denied by now, of these subjects or of all."""
        broker, subscriptions = self._broker, self._subscriptions
        results, stored, join = [], [], []
        broker.level(client)
        room = subscriptions.room(client)
        kept = client.waiting or {}
        for subject in list(kept if subjects is None else filter(kept.__contains__, subjects)):
            waiting = kept[subject]
            reason = broker.grants.check(client.principal, SUBSCRIBE, subject, now)
            if not reason and (
                subscriptions.is_behind(subject, waiting, now)
                or subscriptions.must_wait(client, subject, waiting.request, room)
            ):
                waiting.error = "not_ready"
                self._subscriptions.crowded[client] = None
            elif not reason:
                assert client.waiting is not None
                del client.waiting[subject]
                broker.counters.waiting -= 1
                result, frames, feed = subscriptions.start(client, subject, waiting.request, room)
                self._wildcards.runs(client, subject, waiting.pattern, result)
                results.append(result)
                stored += frames.frames
                if feed is not None:
                    join.append(feed)
            elif waiting.error == "not_ready" and reason not in PENDING:
                if not waiting.told:
                    subscriptions.forget(client, subject)
                    continue
                results.append(subscriptions.wait(client, subject, waiting.request, reason, now))
                self._wildcards.cut(client, subject, waiting.pattern)
                for observer in broker.observers:
                    observer.denied(client, results[-1:])
        if results:
            if stored:
                broker.tell_base(client)
            broker.bring(client, Subscribed(results=results), *stored)
            broker.counters.messages_out += len(stored)
            broker.move(client, join, [])

    def _schedule(self, holders: set[str], uids: set[str], sids: set[str]) -> None:
        waiting = set(self._todo)
        everybody = OTHERS in uids
        for client in self._clients:
            principal = client.principal
            claims = principal.claims
            if client not in waiting and (
                everybody
                or not holders.isdisjoint(principal.holders)
                or (claims is not None and (claims.uid in uids or claims.session in sids or claims.token_id in sids))
            ):
                self._todo.append(client)

    def _check_mode(self, *rights: list[Any]) -> None:
        """Check the mode; raise InvalidMessage for rights where nobody would ask for them."""
        if any(rights) and not isinstance(self._broker.grants, RuleGrants):
            mode = self._broker.grants.mode
            raise InvalidMessage("invalid", f"the sidecar runs in mode {mode}, not rules: it takes options alone")
