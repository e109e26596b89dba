"""The keys that tokens are signed with, fetched from the address of a JWK set: the first worker asks, all get them."""

from __future__ import annotations

import logging
import threading

from ...core.auth.keys import Keys, read_key_set
from ...core.protocol.errors import InvalidKeys
from ..node.messages import KeysWanted, TokenKeys
from ..runtime.component import Offers
from ..runtime.runtime import Runtime
from .key_file import take_keys
from .key_refresh import KeyRefresh

log = logging.getLogger("fastpath.keys")


class KeyAddress:
    """Keeps the keys of one process as they are at the address; what cannot be had leaves them as they are.

    On the first worker it fetches them and hands them to the others, which tell it when a token names one they lack.
    """

    def __init__(self, runtime: Runtime, address: str, seconds: int, keys: Keys) -> None:
        self._runtime = runtime
        self._address = address
        self._keys = keys
        self._refresh = KeyRefresh(seconds)
        self._data = b""
        self._missed = keys.missed
        self._trouble = ""
        self.offers = Offers(
            reloads={"FASTPATH_TOKEN_KEYS": self._refresh.hurry},
            messages={TokenKeys: self._got, KeysWanted: self._wanted_by},
            linked=self._linked,
            on_second=self._look,
        )

    def _look(self, moment: int) -> None:
        """Look each second, and for the first time right after the start, if keys are to be fetched."""
        del moment
        if self._keys.missed != self._missed:
            self._missed = self._keys.missed
            if self._runtime.workers.follows:
                self._runtime.workers.to_first(KeysWanted())
            else:
                self._refresh.want()
        if not self._runtime.workers.follows and self._refresh.begin(self._runtime.loop.time()):
            threading.Thread(target=self._fetch, name="token keys", daemon=True).start()

    def _fetch(self) -> None:
        """Fetch the keys, in a thread: an address may take its time."""
        from .key_fetch import fetch  # noqa: PLC0415 - whoever names no address need not load an HTTP client

        data, trouble = b"", ""
        try:
            data = fetch(self._address)
        except Exception as error:  # whatever a server far away can make the library raise
            trouble = str(getattr(error, "reason", error)) or type(error).__name__
        try:
            self._runtime.loop.call_soon_threadsafe(self._fetched, data, trouble)
        except RuntimeError:
            return  # the sidecar has ended

    def _fetched(self, data: bytes, trouble: str) -> None:
        now = self._runtime.loop.time()
        if not trouble:
            try:
                self._take(data)
            except InvalidKeys as error:
                trouble = str(error)
        if trouble:
            self._refresh.failed(now)
            if trouble != self._trouble:
                log.error("%s: %s; the keys are left as they are", self._address, trouble)
        else:
            self._refresh.came(now)
            if self._trouble:
                log.info("%s answers again", self._address)
        self._trouble = trouble

    def _take(self, data: bytes) -> None:
        """Let these keys count, here and on the other workers; raises InvalidKeys."""
        if data == self._data:
            return
        found, notes = read_key_set(data, public=True)
        if not self._runtime.workers.follows:
            for note in notes:
                log.warning("%s: %s", self._address, note)
        self._data = data
        take_keys(self._runtime, self._address, found)
        self._runtime.workers.to_others(TokenKeys(data))

    # Messages between the workers

    def _linked(self, worker: int) -> None:
        if self._data and not self._runtime.workers.follows:
            self._runtime.workers.to_others(TokenKeys(self._data), worker)

    def _got(self, worker: int, message: TokenKeys) -> None:
        del worker
        self._take(message.data)

    def _wanted_by(self, worker: int, message: KeysWanted) -> None:
        del worker, message
        self._refresh.want()
