"""Who leads, which rows are next under which numbers, and what is left of them."""

from __future__ import annotations

import pytest
from msgspec.msgpack import encode as packb

from realtime import publish, publish_many
from realtime.models import OutboxMessage, OutboxState
from realtime.publishing.outbox import store as module
from realtime.publishing.outbox.store import Fates, LeadLost, OutboxStore, send_again

SUBJECT = "/orders/42"

pytestmark = pytest.mark.usefixtures("outbox")


def leading() -> OutboxStore:
    """A store that leads, as one of a process that starts after the one before has ended."""
    OutboxState.objects.update(holder="")
    store = OutboxStore("default")
    assert store.lead()
    return store


def numbers(store: OutboxStore) -> list[tuple[str, int, bool]]:
    """Contents, numbers and doubts of what is taken."""
    return [(one.row.wire[1], one.number, one.doubtful) for one in store.take()]


def test_rows_are_taken_in_order_and_numbered() -> None:
    store = leading()
    assert store.take() == []
    publish_many([(SUBJECT, "a"), (SUBJECT, "b")])
    first, second = store.take()
    assert [(one.row.subject, one.number) for one in (first, second)] == [(SUBJECT, 1), (SUBJECT, 2)]
    store.settle(Fates([first.id], {second.id: ("denied", "no right")}, []))
    [aside] = OutboxMessage.objects.all()
    assert (aside.code, aside.reason, aside.refused is not None) == ("denied", "no right", True)
    publish(SUBJECT, "c")
    assert numbers(store) == [("c", 3, False)]
    state = OutboxState.objects.get()
    assert (state.sent, state.refused) == (1, 1)


def test_whoever_goes_on_sends_what_was_begun_under_the_same_numbers() -> None:
    before = leading()
    publish_many([(SUBJECT, "a"), (SUBJECT, "b")])
    assert numbers(before) == [("a", 1, False), ("b", 2, False)]
    publish(SUBJECT, "c")
    after = leading()
    assert after.publisher == before.publisher
    assert numbers(after) == [("a", 1, True), ("b", 2, True)]
    with pytest.raises(LeadLost):
        before.settle(Fates([1, 2], {}, []))
    assert not before.leads
    ids = [one.id for one in after.take()]
    after.settle(Fates(ids[:1], {}, [(ids[1], 2)]))
    assert numbers(after) == [("b", 2, True)]
    after.settle(Fates(ids[1:], {}, []))
    assert numbers(after) == [("c", 3, False)]


def test_who_leads_no_more_takes_nothing_and_deletes_nothing() -> None:
    publish_many([(SUBJECT, "a"), (SUBJECT, "b")])
    before = leading()
    [one, _] = before.take()
    before.settle(Fates([one.id], {}, []))
    after = leading()
    with pytest.raises(LeadLost):
        before.take()
    state = OutboxState.objects.get()
    assert (state.pending, state.number, state.sent) == ([], 0, 1)
    [other] = after.take()
    with pytest.raises(LeadLost):
        OutboxStore("default").settle(Fates([other.id], {}, []))
    assert OutboxMessage.objects.count() == 1
    after.settle(Fates([other.id], {}, []))
    assert not OutboxMessage.objects.exists()
    assert OutboxState.objects.get().sent == 2


BAD = {
    "no MessagePack": b"\xc1",
    "nothing": b"",
    "no list": packb(5),
    "too short": packb([SUBJECT, "x"]),
    "no content": packb([SUBJECT, 5, {}, {}]),
    "no fields": packb([SUBJECT, "x", {"a": 1}, {}]),
    "no meta": packb([SUBJECT, "x", {}, "meta"]),
    "another subject's": packb(["/orders/43", "x", {}, {}]),
    "half a character": b"\x94\xaa/orders/42\xa3\xed\xa0\x80\x80\x80",
}


@pytest.mark.parametrize("bad", BAD.values(), ids=list(BAD))
def test_a_row_that_cannot_be_read_is_set_aside_alone(bad: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Whether it was begun or not; those before and behind it are sent."""
    publish_many([(SUBJECT, "a"), (SUBJECT, "b"), (SUBJECT, "c")])
    first, second, third = (one.pk for one in OutboxMessage.objects.order_by("pk"))
    OutboxMessage.objects.filter(pk=second).update(message=bad)
    before = leading()
    assert numbers(before) == [("a", 1, False), ("c", 3, False)]
    OutboxMessage.objects.filter(pk=third).update(message=bad)
    after = leading()
    assert numbers(after) == [("a", 1, True)]
    after.settle(Fates([first], {}, []))
    assert after.take() == []
    aside = OutboxMessage.objects.order_by("pk")
    assert [(one.pk, one.code) for one in aside] == [(second, "invalid"), (third, "invalid")]
    assert (OutboxState.objects.get().refused, OutboxState.objects.get().pending) == (2, [])
    assert f"[{second}]" in caplog.text
    OutboxMessage.objects.update(code="")
    assert after.take() == [], "a batch of nothing else is no reason to stop"
    publish(SUBJECT, "d")
    assert [content for content, *_ in numbers(after)] == ["d"]


def test_without_anything_begun_the_numbers_have_a_new_name() -> None:
    publish(SUBJECT, "a")
    before = leading()
    [one] = before.take()
    before.settle(Fates([], {}, []))
    after = leading()
    assert after.publisher != before.publisher
    assert numbers(after) == [("a", 1, False)]
    assert one.number == 1


def test_one_leads_until_it_ends_or_says_nothing_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = leading(), OutboxStore("default")
    assert not second.lead()
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.0)
    assert second.lead()
    monkeypatch.setattr(module, "LEASE_SECONDS", 60.0)
    with pytest.raises(LeadLost):
        first.retry()
    assert not first.lead()
    second.release()
    assert first.lead()


def test_a_database_that_did_not_answer_is_read_anew() -> None:
    store = leading()
    publish(SUBJECT, "a")
    store.take()
    store.forget()
    assert store.lead()
    assert numbers(store) == [("a", 1, True)]


def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 10)
    monkeypatch.setattr(module, "BATCH_ROWS", 3)
    publish_many([(SUBJECT, "x" * size) for size in (5, 5, 5, 20, 1, 1, 1, 1)])
    store = leading()
    sizes = []
    while batch := store.take():
        sizes.append([one.row.size for one in batch])
        store.settle(Fates([one.id for one in batch], {}, []))
    assert sizes == [[5, 5], [5], [20], [1, 1, 1], [1]]


def test_what_was_begun_may_be_deleted() -> None:
    publish(SUBJECT, "a")
    store = leading()
    store.take()
    OutboxMessage.objects.all().delete()
    publish(SUBJECT, "b")
    assert numbers(store) == [("b", 2, False)]


def test_rows_that_were_set_aside_can_be_sent_again() -> None:
    publish_many([(SUBJECT, "a"), (SUBJECT, "b")])
    store = leading()
    first, second = store.take()
    store.settle(Fates([], {first.id: ("denied", "x" * 1000)}, []))
    assert send_again("default", [first.id, second.id]) == 1
    assert numbers(store) == [("b", 3, False), ("a", 4, False)]
