"""Passwords of Django's users: a process of Django checks them, the first worker asks it and remembers for a moment."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ...core.auth.hook_questions import HookReply
from ...core.auth.passwords import Key, RightPasswords, Tries
from ...core.auth.tokens import TOKEN_CHARS_MAX
from ...core.protocol.errors import Close, InvalidMessage, Refused
from ..node.messages import CheckPassword, PasswordChecked
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime, now
from .workers import Runners

USER_CHARS_MAX = 256
PASSWORD_CHARS_MAX = 4096
"""Longer ones are wrong, unasked."""

OPEN_MAX = 1000
"""Questions that are open at a time; who comes then is to come again."""

TICK_SECONDS = 0.1

_WRONG = "the user name or the password is wrong"
_AGAIN = "passwords cannot be checked at the moment: come again"
_OFTEN = "too many wrong passwords: come again later"

Done = Callable[[str, Refused | None], None]

log = logging.getLogger("fastpath.hooks")


def network_of(address: str) -> str:
    """Return whom an address stands for: of IPv6 its /64, which one machine may have all addresses of."""
    try:
        found = ip_address(address)
    except ValueError:
        return address  # of a unix socket
    if not isinstance(found, IPv6Address):
        return address
    return str(found.ipv4_mapped or ip_network((found, 64), strict=False))


class PasswordReply(HookReply, frozen=True):
    """Django's answer: a token of the user, empty where the password is wrong; ``failed`` says why there is none."""

    token: Annotated[str, Meta(max_length=TOKEN_CHARS_MAX)] = ""


class _Check:
    """A pair that is being checked, and all who wait for that."""

    __slots__ = ("digest", "keys", "waiting")

    def __init__(self, digest: bytes, keys: tuple[Key, ...], done: Done) -> None:
        self.digest = digest
        self.keys = keys
        self.waiting = [done]


class Passwords:
    """Has passwords checked for this process; on the first worker also for the others.

    ``secret`` is what they are remembered by. Three bounds hold against guessing: of one user from one address, of all
    users from one address, of one user from all addresses. What was right counts in none of them.
    """

    def __init__(self, runtime: Runtime, secret: bytes) -> None:
        self._runtime = runtime
        self._right = RightPasswords(secret)
        self._tries = (Tries(10, 10_000), Tries(100, 1000), Tries(100, 1000))
        self._runners = Runners(runtime.settings.hook_seconds, self._answered)
        self._checks: dict[int, _Check] = {}  # by number
        self._numbers: dict[bytes, int] = {}  # of them, by digest
        self._count = 0
        self._sent: dict[int, tuple[Done, float]] = {}  # to the first worker, and until when an answer is waited for
        self._wrong = self._limited = 0
        self.offers = Offers(
            verbs={"passwords": self._run, "checked": self._take_answer},
            messages={CheckPassword: self._asked_by, PasswordChecked: self._answered_by},
            figures=self._figures,
            passwords=self,
        )
        runtime.loop.call_later(TICK_SECONDS, self._tick)

    def check(self, user: str, password: str, address: str, done: Done) -> None:
        """Check that it is the user's password: ``done`` gets a token of the user, or why there is none; at once or
        later."""
        if not self._runtime.workers.follows:
            self._check(user, password, address, done)
            return
        if len(self._sent) >= OPEN_MAX:
            done("", Refused(Close.OVERLOADED, _AGAIN))
            return
        self._count += 1
        # The first worker answers by then, unless it dies.
        self._sent[self._count] = (done, self._runtime.loop.time() + self._runtime.settings.hook_seconds + 1)
        self._runtime.workers.to_first(CheckPassword(self._count, user, password, address))

    def _check(self, user: str, password: str, address: str, done: Done) -> None:
        if len(user) > USER_CHARS_MAX or len(password) > PASSWORD_CHARS_MAX:
            done("", Refused(Close.BAD_TOKEN, _WRONG))
            return
        digest = self._right.digest(user, password)
        moment = now()
        if token := self._known(digest, moment):
            done(token, None)
        elif (number := self._numbers.get(digest)) is not None:
            self._checks[number].waiting.append(done)
        elif not len(self._runners) or len(self._checks) >= OPEN_MAX:
            done("", Refused(Close.NOT_READY, _AGAIN))
        else:
            network = network_of(address)
            keys = ((user, network), (network,), (user,))
            if not all(tries.may(key, moment) for tries, key in zip(self._tries, keys, strict=True)):
                self._limited += 1
                done("", Refused(Close.OVERLOADED, _OFTEN))
                return
            for tries, key in zip(self._tries, keys, strict=True):
                tries.take(key, moment)
            self._count += 1
            self._checks[self._count] = _Check(digest, keys, done)
            self._numbers[digest] = self._count
            about = {"user": user, "password": password, "address": address}
            self._runners.ask(0, self._count, address, about, self._runtime.loop.time())

    def _known(self, digest: bytes, moment: int) -> str:
        """Return the token that the pair is known by, while it still counts: not after a new password, or without a
        user."""
        token = self._right.token(digest, moment)
        if token:
            try:
                self._runtime.broker.grants.principal(token, moment)
            except Refused:
                self._right.forget(digest)
                return ""
        return token

    def _answered(self, worker: int, number: int, reply: HookReply) -> None:
        """Django has answered, or nobody in time; ``worker`` is this one."""
        del worker
        check = self._checks.pop(number)
        del self._numbers[check.digest]
        token = reply.token if isinstance(reply, PasswordReply) else ""
        refused = None
        if token and not reply.failed:
            self._right.keep(check.digest, token, now())
        elif reply.failed:
            token, refused = "", Refused(Close.NOT_READY, _AGAIN)
        else:
            refused = Refused(Close.BAD_TOKEN, _WRONG)
            self._wrong += 1
        if refused is None or refused.code != Close.BAD_TOKEN:
            for tries, key in zip(self._tries, check.keys, strict=True):
                tries.give_back(key)
        for done in check.waiting:
            self._tell(done, token, refused)

    def _tell(self, done: Done, token: str, refused: Refused | None) -> None:
        try:
            done(token, refused)
        except Exception:
            log.exception("fault while letting a user in")
        self._runtime.end()

    def _tick(self) -> None:
        self._runtime.loop.call_later(TICK_SECONDS, self._tick)
        moment = self._runtime.loop.time()
        self._runners.tick(moment)
        for number in [number for number, (_, until) in self._sent.items() if until <= moment]:
            done, _ = self._sent.pop(number)
            self._tell(done, "", Refused(Close.NOT_READY, _AGAIN))

    def _figures(self) -> dict[str, float]:
        if self._runtime.workers.follows:
            return {}
        return {
            "passwords_open": sum(len(check.waiting) for check in self._checks.values()),
            "passwords_asked": self._runners.asked,
            "passwords_wrong": self._wrong,
            "passwords_limited": self._limited,
        }

    # Of other workers

    def _asked_by(self, worker: int, asked: CheckPassword) -> None:
        self._check(asked.user, asked.password, asked.address, partial(self._tell_worker, worker, asked.number))

    def _tell_worker(self, worker: int, number: int, token: str, refused: Refused | None) -> None:
        code, reason = (refused.code, refused.reason) if refused is not None else (Close.NORMAL, "")
        self._runtime.workers.to_others(PasswordChecked(number, token, int(code), reason), worker)

    def _answered_by(self, worker: int, checked: PasswordChecked) -> None:
        del worker
        done, _ = self._sent.pop(checked.number, (None, 0))
        if done is not None:
            self._tell(done, checked.token, None if checked.token else Refused(Close(checked.code), checked.reason))

    # Verbs of the control socket

    def _run(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Have this connection check passwords from now on."""
        del arguments
        self._runners.add(peer)
        return {"seconds": self._runtime.settings.hook_seconds}

    def _take_answer(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Take an answer, which is not answered itself unless it is none."""
        self._runners.heard(peer)
        number = int(arguments.pop("ask"))
        try:
            reply = msgspec.convert(arguments, PasswordReply)
        except msgspec.ValidationError as error:
            self._runners.answer(number, HookReply(failed="the answer is none"))
            raise InvalidMessage("invalid", str(error)) from None
        self._runners.answer(number, reply)
