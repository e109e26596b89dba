"""The subjects that a pattern covers and a caller may read, a page of them in the order of their names."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Set

from ...core.auth.grants import Principal
from ...core.auth.rules import SUBSCRIBE
from ...core.protocol.errors import InvalidMessage
from ..runtime.component import Answer
from ..runtime.runtime import Runtime, now
from ..runtime.scatter import Work
from .call import Call

SEARCHES_MAX = 4
"""Searches at the same time in one process, which share a millisecond of each turn of its loop with other works."""

SLICE_PLACES = 100
"""Places of the tree that are looked at between two looks at the clock: a fraction of a millisecond."""

Found = Callable[[list[str], bool], None]


class CoveredSubjects:
    """Looks for them in slices, as there may be a million; wildcards stand for what they do in subscriptions."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running = 0

    def find(self, call: Call, pattern: str, after: str, named: Set[str], most: int, found: Found) -> None:
        """Call ``found`` with the first ``most`` names behind ``after`` but the ``named``, and whether there are more.

        Raises Refused, and InvalidMessage ``not_ready`` while too many are looking.
        """
        principal = call.principal()
        if self._running >= SEARCHES_MAX:
            raise InvalidMessage("not_ready", f"{SEARCHES_MAX} searches for what patterns cover are under way; retry")

        def done(answer: Answer) -> None:
            self._running -= 1
            if "failed" in answer:
                call.run(_fail, *answer["failed"])
            else:
                found(answer["subjects"], answer["more"])

        self._running += 1
        self._runtime.scatter.run(self._search(call, principal, pattern, after, named, most), done)

    def _search(self, call: Call, principal: Principal, pattern: str, after: str, named: Set[str], most: int) -> Work:
        """Search for names; ask for a right only where the name would be among the first."""
        broker = self._runtime.broker
        names: list[str] = []
        for count, topic in enumerate(broker.interest.tree.find(pattern)):
            if count % SLICE_PLACES == 0:
                if call.is_over:
                    break
                yield
            if topic is None or topic.subject <= after or topic.subject in named:
                continue
            if len(names) > most and topic.subject >= names[-1]:
                continue
            if not broker.grants.check(principal, SUBSCRIBE, topic.subject, now()):
                insort(names, topic.subject)
                del names[most + 1 :]
        return {"subjects": names[:most], "more": len(names) > most}


def _fail(code: str, reason: str) -> None:
    raise InvalidMessage(code, reason)
