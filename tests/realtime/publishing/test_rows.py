"""What publish() takes: all that is a text, and what it cannot send is refused at the call."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count
from typing import Any

import pytest
from django.db import models, transaction
from django.template import engines
from django.utils.functional import SimpleLazyObject
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy, override

from realtime import PublishRefused, publish
from realtime.nodes.control_sockets import control
from tests.support.sidecar import Sidecar

SUBJECT = "/orders/refused"
NUMBERS = count()

pytestmark = pytest.mark.django_db(transaction=True)


class State(models.TextChoices):
    """As a model has it."""

    SHIPPED = "shipped", "is under way"


class Text(str):
    """A text of a type of its own."""


class Binary(bytes):
    """Bytes of a type of its own."""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One that takes less than others."""
    with Sidecar(message_bytes_max=3000) as small:
        yield small


@pytest.fixture
def node(sidecar: Sidecar, settings: Any) -> Iterator[Sidecar]:
    """It, named by the settings."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
    with control():
        yield sidecar


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (mark_safe("<b>1</b>"), "<b>1</b>"),
        (format_html("<i>{}</i>", "<"), "<i>&lt;</i>"),
        (State.SHIPPED, "shipped"),
        (enum.StrEnum("Kind", {"A": "a"}).A, "a"),
        (Text("own"), "own"),
        (Binary(b"\xff"), b"\xff"),
        (gettext_lazy("Yes"), "Ja"),
        (SimpleLazyObject(lambda: "later"), "later"),
    ],
)
def test_every_text_is_taken(node: Sidecar, given: Any, sent: str | bytes) -> None:
    """Of whatever subclass; a lazy one in the language of the call."""
    for block in (transaction.atomic(), nullcontext()):
        subject = f"/orders/{next(NUMBERS)}"
        with block, override("de"):
            publish(Text(subject), given, {Text("f"): given})
        message = control().snapshot(subject)["message"]
        assert (message["content"], message["fields"]) == (sent, {"f": sent})


def test_a_rendered_template_is_taken(node: Sidecar) -> None:
    text = engines["django"].from_string("<td>{{ n }}</td>").render({"n": 7})
    assert type(text) is not str
    publish("/orders/rendered", text)
    assert control().snapshot("/orders/rendered")["message"]["content"] == "<td>7</td>"


@pytest.mark.parametrize(
    ("subject", "content", "fields", "code", "why"),
    [
        (SUBJECT, "x" * 3001, None, "too_large", "3001 bytes|over 3000 bytes"),
        (SUBJECT, "ü" * 1501, None, "too_large", "3002 bytes|over 3000 bytes"),
        (SUBJECT, "x", {"f": b"x" * 3000}, "too_large", "3002 bytes|over 3000 bytes"),
        (SUBJECT, "x", {str(number): "" for number in range(257)}, "too_large", "256 fields"),
        (SUBJECT, "x", {"": "1"}, "invalid", "name is a text of 1 to 256"),
        (SUBJECT, "x\ud800", None, "invalid", "content has half of a character at 1"),
        (SUBJECT, "x", {"f": "\udcff"}, "invalid", "the field 'f' has half"),
        (SUBJECT, "x", {"\udcff": "f"}, "invalid", "the name of the field"),
        ("/a/\udcff", "x", None, "invalid", "the subject has half of a character at 3"),
        (7, "x", None, "invalid", "not a text"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_the_call(
    node: Sidecar, subject: Any, content: Any, fields: Any, code: str, why: str
) -> None:
    """Where the row can still be rolled back, and nothing of it comes at the commit."""
    for block in (transaction.atomic(), nullcontext()):
        good = f"/orders/{next(NUMBERS)}"
        with block:
            with pytest.raises(PublishRefused, match=why) as caught:
                publish(subject, content, fields)
            publish(good, "good")
        assert caught.value.code == code
        assert control().snapshot(good)["message"]["content"] == "good"
    assert control().snapshot(SUBJECT)["status"] == "none"


def test_fields_are_a_mapping() -> None:
    with pytest.raises(TypeError, match="fields is a mapping of names to values, not list"):
        publish(SUBJECT, "x", [("f", "1")])  # type: ignore[arg-type]
