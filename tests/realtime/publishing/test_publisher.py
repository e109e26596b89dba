"""publish(): after commit, never after a rollback, and clear when it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from fastpath.client.errors import SidecarUnavailable
from realtime import NotEncodable, PublishRefused, publish
from realtime.nodes.control_sockets import control
from tests.support.sidecar import Sidecar

SUBJECT = "/stocks/us/IBM"

pytestmark = pytest.mark.django_db(transaction=True)


def snapshot(subject: str = SUBJECT) -> dict[str, Any] | None:
    """What a superuser reads."""
    return control().snapshot(subject).get("message")


@pytest.fixture
def open_sidecar(sidecar: Sidecar, settings: Any) -> Iterator[Sidecar]:
    """A sidecar without rights to ask for."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
    with control():
        yield sidecar


def test_outside_a_transaction_it_is_sent_at_once(open_sidecar: Sidecar) -> None:
    """And the position comes back."""
    first, second = publish(SUBJECT, "193", {"volume": "6.62M"}), publish(SUBJECT, b"\xff\x00")
    assert first is not None
    assert second is not None
    assert (first.epoch, first.seq + 1) == second
    message = snapshot()
    assert message is not None
    assert message["content"] == b"\xff\x00"
    assert message["fields"] == {"volume": "6.62M"}


def test_in_a_transaction_it_waits_for_the_commit(open_sidecar: Sidecar) -> None:
    """In the order of the calls, with the fields as they were then."""
    fields = {"n": "1"}
    with transaction.atomic():
        assert publish(SUBJECT, "a", fields) is None
        fields["n"] = "2"
        with transaction.atomic():
            publish(SUBJECT, "b")
        assert snapshot() is None
    message = snapshot()
    assert message is not None
    assert (message["content"], message["fields"], message["seq"]) == ("b", {"n": "1"}, 2)


def test_a_rollback_publishes_nothing(open_sidecar: Sidecar) -> None:
    """Neither of the whole nor of a part."""
    with transaction.atomic():
        publish("/stocks/us/GE", "kept")
        with transaction.atomic():
            publish(SUBJECT, "b")
            transaction.set_rollback(True)
    with transaction.atomic():
        publish(SUBJECT, "a")
        transaction.set_rollback(True)
    assert snapshot() is None
    assert snapshot("/stocks/us/GE") is not None


def test_not_retained_and_standard(open_sidecar: Sidecar) -> None:
    """One leaves the snapshot as it is, the other takes no number."""
    publish(SUBJECT, "193")
    publish(SUBJECT, "0", retained=False)
    standard = publish(SUBJECT, "194", qos="standard")
    assert standard is not None
    assert standard.seq == 0
    message = snapshot()
    assert message is not None
    assert message["content"] == "194"


def test_without_a_sidecar_it_raises_and_says_what_to_do(settings: Any, tmp_path: Path) -> None:
    """Inside a transaction as well, where it can still be rolled back."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}
    with pytest.raises(SidecarUnavailable, match=r"none\.sock .*manage\.py runrealtime"):
        publish(SUBJECT, "193")
    with pytest.raises(SidecarUnavailable), transaction.atomic():
        publish(SUBJECT, "193")


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("stocks/us", "no leading slash.*begins with a slash"),
        ("/stocks//us", "empty segment"),
        ("/stocks", "two segments"),
        ("/stocks/*", "reserved segment"),
        ("/__sys__/stats", "denied"),
    ],
)
def test_a_subject_that_cannot_be_is_refused_at_once(subject: str, reason: str) -> None:
    """Without asking any sidecar."""
    with pytest.raises(PublishRefused, match=reason):
        publish(subject, "x")


@pytest.mark.parametrize(
    ("content", "fields", "what"),
    [
        (object(), None, "content is a object, which has no text"),
        (None, None, "content is None.*say which text that is"),
        ({"a": {1, 2}}, None, "content cannot be said in JSON: Object of type set"),
        ([float("nan")], None, "content cannot be said in JSON"),
        ([b"x"], None, "content cannot be said in JSON: Object of type bytes"),
        ("x", {"bid": {3}}, "the field 'bid' is a set"),
        ("x", {1: "a"}, "names"),
    ],
)
def test_what_cannot_be_encoded_is_a_type_error(content: Any, fields: Any, what: str) -> None:
    """Where it was called, and named."""
    with pytest.raises(TypeError, match=what) as caught:
        publish(SUBJECT, content, fields)
    assert isinstance(caught.value, NotEncodable) or "names are texts" in str(caught.value)


def test_what_the_sidecar_refuses_is_raised(settings: Any) -> None:
    """With the sidecar's own code and reason."""
    with Sidecar(mode="none", message_bytes_max=2000) as small:
        settings.REALTIME = settings.REALTIME | {"CONTROL": small.control}
        with control(), pytest.raises(PublishRefused) as caught:
            publish(SUBJECT, "x" * 5000)
        assert caught.value.code == "too_large"
        with control():
            assert publish(SUBJECT, "x") is not None
