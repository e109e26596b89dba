"""The JavaScript client driven from a test: its messages and statuses are read from the page."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.support.waiting import PATIENCE_SECONDS, until

QUICKLY = {"quickRetries": 0, "backoffSeconds": 0.2, "backoffSecondsMax": 0.5}
"""Waits that a test can afford; how long they are by default is in tests/behaviours/."""

_OPEN = """async ({ urls, form, tokens, options }) => {
    const { connect } = await import("/realtime/static/realtime/client.js");
    const plain = (value) => value instanceof Uint8Array ? { bytes: [...value] } : value;
    window.statuses = [];
    window.messages = [];
    window.asked = 0;
    window.tokens = tokens;
    const token = () => {
        const next = tokens[Math.min(window.asked++, tokens.length - 1)];
        if (next === null) throw new Error("there is none at the moment");
        return next;
    };
    window.client = connect({ urls, form, token: tokens.length ? token : undefined, ...options,
                              onStatus: (status) => statuses.push({ ...status, at: performance.now() }) });
    window.hear = (message) => messages.push({ ...message, content: plain(message.content),
        fields: Object.fromEntries(Object.entries(message.fields).map(([name, value]) => [name, plain(value)])) });
}"""


class Scripted:
    """A client in a page; options are the client's own, and it reconnects ``QUICKLY`` unless they say otherwise.

    ``tokens`` are had one after the other, the last for ever; one that is None cannot be had.
    """

    def __init__(
        self,
        page: Page,
        *urls: str | dict[str, Any],
        form: str = "msgpack",
        tokens: tuple[str | None, ...] = (),
        **options: Any,
    ) -> None:
        self.page = page
        every = QUICKLY | options
        page.evaluate(_OPEN, {"urls": list(urls), "form": form, "tokens": list(tokens), "options": every})

    def do(self, script: str, argument: Any = None) -> Any:
        """Run a script with ``client`` and ``argument``; a promise is waited for."""
        return self.page.evaluate(f"(argument) => {script}", argument)

    def subscribe(self, *subjects: str, **options: Any) -> None:
        """Hear subjects, and wait until the server has answered for each."""
        before = len(self.statuses("subscribed"))
        self.do(
            "void (window.subscription = client.subscribe(argument[0], hear, argument[1]))", [list(subjects), options]
        )
        until(lambda: len(self.statuses("subscribed")) >= before + len(subjects))

    def publish(self, subject: str, content: str, **options: Any) -> Any:
        """Publish and return the answer; an error is returned as its text."""
        return self.do("client.publish(...argument).catch((error) => String(error))", [subject, content, options])

    def statuses(self, *names: str) -> list[dict[str, Any]]:
        """What happened so far of these names."""
        return [status for status in self.do("statuses") if status["name"] in names]

    def wait(self, name: str, count: int = 1, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """The newest status of that name, when there are so many of them."""
        until(lambda: len(self.statuses(name)) >= count, seconds)
        return self.statuses(name)[-1]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What was received so far."""
        found: list[dict[str, Any]] = self.do("messages")
        return found

    @property
    def contents(self) -> list[Any]:
        """Their contents alone."""
        return [message["content"] for message in self.messages]
