"""What a session knows of its topics: bounded, however many subjects its client hears, and found without a search."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.mqtt import session as module
from fastpath.core.mqtt.groups.shares import Share
from fastpath.core.mqtt.packets import Filter
from fastpath.core.mqtt.session import TOPICS_MAX, MqttSession, Place, Subscription
from fastpath.core.mqtt.topics import matches

TEXTS = ["/a", "/b", "a/b", "a/+", "+/b", "#", "/+", "/a/#", "+/+", "$share/g/a/+", "$share/g/a/b", "$share/h//a"]
TOPICS = ["/a", "/b", "/a/b", "a/b", "a/c", "c/b", "a"]
ACTION = st.tuples(st.sampled_from(TEXTS), st.booleans(), st.sampled_from([0, 1]), st.booleans())


def test_how_a_client_wants_its_topics_is_known_of_so_many_and_found_out_of_others() -> None:
    session = MqttSession("p", 5, 0)
    session.subscribe(Subscription(Filter(text="a/#", qos=1), ["/a/**"], 7, True))
    group = Subscription(Filter(text="$share/g/a/#"), ["/a/**"], 0, False, Share("g"))
    session.subscribe(group)
    options, shared = session.options(0, "a/0", "/a/0", own=False), session.shared(0, "a/0")
    assert session.options(0, "a/0", "/a/0", own=False) is options
    assert session.shared(0, "a/0") is shared
    for number in range(1, TOPICS_MAX + 1):
        session.options(number, f"a/{number}", f"/a/{number}", own=False)
        session.shared(number, f"a/{number}")
    again = session.options(0, "a/0", "/a/0", own=False)
    assert again == options
    assert again is not options
    assert session.shared(0, "a/0") == shared
    assert session.shared(0, "a/0") is not shared


def test_what_something_stands_for_is_under_way_no_more() -> None:
    session = MqttSession("p", 5, 60)
    session.reached("/a", 1, 9)
    session.sent(7, b"x", Place("/a", 1, 4))
    session.part()
    assert session.since() == {"/a": (1, 3)}
    session.change()
    session.stood_for("/a")
    assert session.since() == {"/a": (1, 9)}
    assert session.change().under_way == []
    session.stood_for("/a")
    assert not session.changed


def subscription(text: str, qos: int = 0, no_local: bool = False) -> Subscription:
    """One to the filter."""
    share = Share("g") if text.startswith("$share/") else None
    return Subscription(Filter(text=text, qos=qos, no_local=no_local), [f"/{text}"], len(text), qos == 1, share)


@settings(max_examples=200, deadline=None)
@given(actions=st.lists(ACTION, max_size=12), again=st.booleans())
def test_what_is_found_of_a_topic_is_what_all_filters_say(
    actions: list[tuple[str, bool, int, bool]], again: bool
) -> None:
    session = MqttSession("p", 5, 60)
    for text, begins, qos, no_local in actions:
        if begins:
            session.subscribe(subscription(text, qos, no_local))
        else:
            session.unsubscribe(text)
    if again:
        session.adopt(session.whole())
        assert not any(session.find_options(topic, topic) for topic in TOPICS)
        assert session.revive(lambda text: Share("g"))
    for number, topic in enumerate(TOPICS):
        fit = [one for one in session.subscriptions.values() if matches(one.levels, topic.split("/"))]
        for own in (False, True):
            wanted = [one for one in fit if one.share is None and not (own and one.filter.no_local)]
            found = session.find_options(topic, topic, own=own)
            assert (found is None) == (not wanted)
            if found is not None:
                assert found.qos == max(one.filter.qos for one in wanted)
                assert found.wants == any(one.wants for one in wanted)
                assert set(found.identifiers) == {one.identifier for one in wanted}
        shared = {one.filter.text for one in session.shared(number, topic)}
        assert shared == {one.filter.text for one in fit if one.share is not None}


def test_however_many_topics_a_client_names_one_is_not_held_against_them(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    def look(levels: list[str], topic: list[str]) -> bool:
        looked.append(levels)
        return matches(levels, topic)

    session = MqttSession("p", 5, 60)
    for number in range(1000):
        session.subscribe(subscription(f"/a/{number}", 1))
    session.subscribe(subscription("/a/+"))
    session.subscribe(subscription("$share/g/a/1"))
    monkeypatch.setattr(module, "matches", look)
    options = session.options(1, "/a/7", "/a/7", own=False)
    assert options is not None
    assert options.qos == 1
    session.shared(1, "/a/7")
    assert len(looked) <= 2 * session.searched == 4
