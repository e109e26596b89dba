"""Channels and groups over several nodes, without Redis: where each message goes, whatever crosses on its way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.channel_layer.channels import FULL
from fastpath.core.channel_layer.groups import GONE_MS
from fastpath.edge.channel_layer import nodes
from fastpath.edge.runtime.runtime import now
from tests.support import promises
from tests.support.channel_layer.nodes import Net, Peer

LOCAL = ("s.pa!1", "s.pb!1", "s.pc!1")
"""A channel of each node's process."""


@pytest.fixture
def net() -> Net:
    """Three nodes that know each other; the first one keeps the named channels."""
    return Net("a", "b", "c")


def peers(net: Net) -> list[Peer]:
    """A process at each node."""
    made = [Peer(node, f"p{name}") for name, node in net.nodes.items()]
    net.settle()
    return made


def total(net: Net, figure: str) -> float:
    return sum(node.figures()[figure] for node in net.nodes.values())


def test_a_message_reaches_a_process_local_channel_from_every_node_in_each_senders_order(net: Net) -> None:
    a, b, c = peers(net)
    for number in range(3):
        a.send("s.pc!1", b"a%d" % number)
        b.send("s.pc!1", b"b%d" % number)
        c.send("s.pc!1", b"c%d" % number)
    net.run()
    got = c.got(*(c.receive("s.pc!1") for _ in range(9)))
    for sender in b"a", b"b", b"c":
        assert [one for one in got if one.startswith(sender)] == [b"%s%d" % (sender, number) for number in range(3)]


def test_a_full_channel_of_another_node_is_refused_and_counted_there(net: Net) -> None:
    a, b, _ = peers(net)
    numbers = [a.send("s.pb!1", b"1", capacity=2) for _ in range(3)]
    net.run()
    assert a.got(*numbers) == [{}, {}, FULL]
    assert net.nodes["b"].figures()["channel_messages_full"] == 1
    assert b.got(b.receive("s.pb!1")) == [b"1"]
    number = a.send("s.pb!1", b"2", capacity=2)
    net.run()
    assert a.got(number) == [{}]


def test_a_message_for_a_process_that_is_nowhere_yet_goes_where_it_appears(net: Net) -> None:
    a, *_ = peers(net)
    for number in range(3):
        a.send("s.late!1", b"%d" % number)
    late = Peer(net.nodes["c"], "late")
    first = late.receive("s.late!1")
    net.settle()
    a.send("s.late!1", b"3")
    net.run()
    assert late.got(first, *(late.receive("s.late!1") for _ in range(3))) == [b"0", b"1", b"2", b"3"]
    assert net.nodes["a"].figures()["channel_messages_waiting"] == 0


@pytest.mark.parametrize("early", [False, True])
def test_a_channel_whose_process_connected_elsewhere_a_moment_ago_gets_what_a_group_is_sent_once(
    net: Net, early: bool
) -> None:
    """It is in the group by its own node and by another one, which has not heard where the process is."""
    a, *_ = peers(net)
    if early:
        a.add("g", "s.new!1")
        net.run()
    new = Peer(net.nodes["c"], "new")
    new.add("g", "s.new!1")
    if not early:
        a.add("g", "s.new!1")
        net.run()
    sent = a.group_send("g", b"x")
    net.settle()
    assert a.got(sent)[0] is not None
    got = new.got(*(new.receive("s.new!1") for _ in range(2)))
    promises.kept(got == [b"x", None], f"a message of a group was doubled: {got}")


def test_a_named_channel_has_one_receiver_a_message_wherever_they_are(net: Net) -> None:
    all_ = peers(net)
    waiting = [(peer, peer.receive("jobs")) for peer in all_ for _ in range(2)]
    net.run()
    for number in range(6):
        all_[number % 3].send("jobs", b"%d" % number)
    net.run()
    assert sorted(peer.got(number)[0] for peer, number in waiting) == [b"%d" % number for number in range(6)]
    for number in range(3):
        all_[2].send("jobs", b"x%d" % number)
    net.run()
    got = []
    for _ in range(3):
        number = all_[1].receive("jobs")
        net.run()
        got += all_[1].got(number)
    assert got == [b"x0", b"x1", b"x2"]


def test_a_cancelled_receiver_elsewhere_has_a_message_or_is_told_and_the_order_stays(net: Net) -> None:
    _, b, c = peers(net)
    alone = b.receive("jobs")
    net.run()
    b.ask("channel_cancel", request=alone)
    net.run()
    assert b.got(alone) == ["cancelled"]
    number = b.receive("jobs")
    net.run()
    c.send("jobs", b"1")
    c.send("jobs", b"2")
    b.ask("channel_cancel", request=number)  # crosses the message
    net.run()
    assert b.got(number) == [b"1"]
    b.ask("channel_return", channel="jobs", **b.answers[number])
    again = b.receive("jobs")
    net.run()
    after = c.receive("jobs")
    net.run()
    assert (b.got(again), c.got(after)) == ([b"1"], [b"2"])
    gone = b.receive("jobs")
    net.run()
    c.send("jobs", b"3")
    net.deliver_one()
    b.close()  # while the message is on its way to it
    net.run()
    after = c.receive("jobs")
    net.run()
    assert (b.got(gone), c.got(after)) == ([None], [b"3"])


def test_a_group_reaches_its_channels_at_all_nodes_once_and_who_sends_is_told_who_was_full(net: Net) -> None:
    a, b, c = peers(net)
    a.add("g", "s.pa!1", "named")
    b.add("g", "s.pb!1", "named")
    c.add("g", "s.pc!1", "s.pa!1", "named", capacity=1)  # those of others as well
    net.run()
    b.group_send("g", b"1")
    net.run()
    b.group_send("g", b"2")
    net.run()
    assert [a.got(a.receive("s.pa!1"))[0], b.got(b.receive("s.pb!1"))[0], c.got(c.receive("s.pc!1"))[0]] == [b"1"] * 3
    numbers = [c.receive("named") for _ in range(2)]
    net.run()
    assert c.got(*numbers) == [b"1", None], "it has room for one, as was said last"
    assert sorted(name for name, _ in b.pushed) == ["channel_left_out"] * 2
    assert ("channel_left_out", {"group": "g", "full": 1, "of": 1}) in b.pushed
    assert ("channel_left_out", {"group": "g", "full": 2, "of": 2}) in b.pushed
    assert (a.pushed, c.pushed) == ([], [])


def test_a_large_group_elsewhere_takes_turns_and_what_is_sent_next_comes_behind_it(net: Net) -> None:
    a, b, _ = peers(net)
    names = [f"s.pb!{number}" for number in range(500)]
    b.add("g", *names)
    for number in range(3):
        a.group_send("g", b"g%d" % number)
        a.send(names[-1], b"s%d" % number)
    net.settle(5)
    assert b.got(*(b.receive(names[-1]) for _ in range(6))) == [b"g0", b"s0", b"g1", b"s1", b"g2", b"s2"]
    assert b.got(*(b.receive(names[0]) for _ in range(3))) == [b"g0", b"g1", b"g2"]


def test_who_is_taken_out_is_out_at_all_nodes_and_whoever_remembers_it_is_told(net: Net) -> None:
    a, b, c = peers(net)
    b.add("g", "named", "s.pc!1")
    c.add("g", "s.pc!2")
    net.run()
    a.discard("g", "named")
    c.discard("g", "s.pc!1")
    a.discard("g", "s.pc!2")
    net.run()
    a.group_send("g", b"1")
    net.run()
    assert total(net, "channel_messages") == 0
    assert ("channel_discarded", {"group": "g", "channel": "named"}) in b.pushed
    assert ("channel_discarded", {"group": "g", "channel": "s.pc!2"}) in c.pushed


def test_flush_is_for_all_nodes_and_answered_when_they_have(net: Net) -> None:
    a, b, c = peers(net)
    b.add("g", "s.pb!1")
    c.send("s.pc!1", b"1")
    net.run()
    number = a.flush()
    assert a.got(number) == [None]
    net.run()
    assert a.got(number) == [{}]
    a.group_send("g", b"2")
    net.run()
    assert (total(net, "channel_messages_waiting"), total(net, "channel_memberships")) == (0, 0)
    assert [("channel_flushed", {"prefix": ""}) in peer.pushed for peer in (b, c)] == [True, True]


def test_a_node_that_dies_takes_its_members_along_and_others_keep_the_named_channels(net: Net) -> None:
    a, b, c = peers(net)
    b.add("g", "s.pb!1", "named")
    a.add("g", "s.pa!1")
    c.add("g", "s.pa!1")
    number = c.receive("named")
    net.run()
    net.kill("a")
    b.group_send("g", b"1")
    net.settle(6)
    assert c.got(number) == [None], "it was a member at the node that died, which had the message"
    b.group_send("g", b"2")
    net.run()
    assert c.got(number) == [b"2"], "b remembers that the named channel is in the group"
    assert b.got(*(b.receive("s.pb!1") for _ in range(2))) == [b"1", b"2"]
    again = Peer(net.begin("a"), "other")
    net.settle()
    again.add("g", "s.other!1")
    b.group_send("g", b"3")
    net.run()
    assert again.got(again.receive("s.other!1")) == [b"3"]
    again.send("named", b"4")
    number = again.receive("named")
    net.run()
    assert again.got(number) == [b"3"], "the one that came does not take over what another one keeps"


def test_while_the_way_is_away_each_node_goes_on_and_tells_the_others_afterwards_in_order(net: Net) -> None:
    a, b, c = peers(net)
    for peer, own in zip((a, b, c), LOCAL, strict=True):
        peer.add("g", own)
    worker = c.receive("jobs")
    net.run()
    for name in "abc":
        net.nodes[name].cut()
    assert [peer.pushed for peer in (a, b, c)] == [[("channel_interrupted", {})]] * 3
    for number in range(2):
        a.group_send("g", b"g%d" % number)
        a.send("s.pc!1", b"s%d" % number)
    number = b.send("jobs", b"job")
    net.run()
    assert a.got(a.receive("s.pa!1"), a.receive("s.pa!1")) == [b"g0", b"g1"]
    assert (b.got(number), c.got(worker)) == ([{}], [None])
    for name in "abc":
        net.nodes[name].connect()
    net.settle()
    assert c.got(worker) == [b"job"]
    got = c.got(*(c.receive("s.pc!1") for _ in range(4)))
    assert [one for one in got if one.startswith(b"g")] == [b"g0", b"g1"]
    assert [one for one in got if one.startswith(b"s")] == [b"s0", b"s1"]


@pytest.mark.parametrize("cut", [False, True])
def test_what_is_moved_is_in_its_order_with_what_comes_meanwhile_and_when_the_way_breaks_again(
    net: Net, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    monkeypatch.setattr(nodes, "MOVE_BYTES", 20)  # two messages at a time
    a, _, c = peers(net)
    here = net.nodes["a"]
    here.cut()
    for number in range(5):
        a.send("s.pc!1", b"%d" % number)
    here.connect()
    while here.figures()["channel_messages_waiting"] == 5:
        net.settle(0.01, run=False)
        net.deliver_one()
    a.send("s.pc!1", b"5")
    if cut:
        here.cut()
        a.send("s.pc!1", b"6")
        here.connect()
    net.settle()
    expected = [b"%d" % number for number in range(7 if cut else 6)]
    promises.kept(c.got(*(c.receive("s.pc!1") for _ in expected)) == expected, "out of order")


def test_what_there_is_no_room_for_is_refused_and_reaches_nobody(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, _ = peers(net)
    a.add("g", "s.pa!1")
    net.nodes["a"].full = True
    numbers = [a.send("s.pb!1", bytes(2000)), a.group_send("g", bytes(2000))]
    assert a.got(*numbers) == [FULL, "unavailable"]
    net.nodes["a"].full = False
    net.nodes["a"].cut()
    monkeypatch.setattr(nodes, "HELD_BYTES_MAX", 3000)
    numbers = [a.group_send("g", bytes(2000)), a.group_send("g", bytes(2000))]
    assert a.got(*numbers) == [{"sent": 1, "full": 0}, "unavailable"]
    assert a.got(*(a.receive("s.pa!1") for _ in range(2))) == [bytes(2000), None]
    del b


def test_a_send_without_an_answer_ends_as_unavailable_and_what_may_have_arrived_is_not_repeated(net: Net) -> None:
    a, b, _ = peers(net)
    number = a.send("s.pb!1", b"1")
    net.nodes["a"].cut(maybe=True)
    assert a.got(number) == ["unavailable"]
    assert net.nodes["a"].figures()["channel_messages_lost"] == 1
    net.nodes["a"].connect()
    net.settle()
    number = a.send("s.pb!1", b"2")
    net.sent.clear()  # it arrives nowhere, and nobody says so
    net.settle(2.5)
    assert a.got(number) == ["unavailable"]
    assert b.got(b.receive("s.pb!1")) == [None]


def test_two_that_kept_the_named_channels_apart_agree_and_nothing_is_lost_or_doubled() -> None:
    net = Net()
    for name in "ab":
        net.begin(name).cut()
        net.nodes[name].up = True
        net.nodes[name].way.up(1)  # each alone, as it sees it
        net.sent.clear()
        net.settle(0.2)
        net.sent.clear()
    a, b = (Peer(net.nodes[name], f"p{name}") for name in "ab")
    for peer in a, b:
        peer.add("g", "named")
        for number in range(200):
            peer.send("jobs", b"%d" % number, capacity=300)
    net.settle(2)
    got = b.got(*[b.receive("jobs") for _ in range(400)])
    net.run()
    got = b.got(*range(b.request - 399, b.request + 1))
    assert sorted(got) == sorted([b"%d" % number for number in range(200)] * 2)
    a.group_send("g", b"once")
    numbers = [b.receive("named") for _ in range(2)]
    net.run()
    assert b.got(*numbers) == [b"once", None]


def test_a_process_that_leaves_is_forgotten_by_all_after_its_time(net: Net) -> None:
    a, b, c = peers(net)
    a.add("g", "s.pb!1")
    net.run()
    b.close()
    net.settle(1)
    c.group_send("g", b"1")
    net.run()
    assert (total(net, "channel_memberships"), total(net, "channel_messages")) == (2, 1), "a remembers it, b keeps it"
    for _ in range(2):  # at b first, which tells the others that the process is nowhere
        net.settle(0.5, moment=now() + GONE_MS + 1)
    assert total(net, "channel_memberships") == 0
    c.group_send("g", b"2")
    net.run()
    assert total(net, "channel_messages") == 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 2), st.sampled_from(["s.pa!1", "s.pb!1", "s.pc!1", "jobs"])),
        st.tuples(st.just("group"), st.integers(0, 2), st.just("g")),
        st.tuples(st.just("deliver"), st.integers(1, 9), st.just("")),
        st.tuples(st.just("settle"), st.just(0), st.just("")),
        st.tuples(st.sampled_from(["cut", "connect", "receive"]), st.integers(0, 2), st.just("")),
    ),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_nothing_is_doubled_or_out_of_order_whatever_is_cut_and_nothing_is_lost_that_was_not_told(
    steps: list[tuple[str, int, str]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes, "MOVE_BYTES", 20)  # two messages at a time
        run(steps)


def run(steps: list[tuple[str, int, str]]) -> None:
    net = Net("a", "b", "c")
    all_ = peers(net)
    for peer, own in zip(all_, LOCAL, strict=True):
        peer.add("g", own)
    waiting: list[tuple[int, int]] = []
    sent: dict[tuple[str, int], list[bytes]] = {}
    unanswered: dict[int, list[int]] = {}
    number = 0
    for what, which, name in steps:
        node = net.nodes["abc"[which % 3]]
        number += 1
        message = b"%d %d %s" % (which, number, what.encode())
        if what == "send":
            if None in all_[which].got(*unanswered.pop(which, ())):
                net.run()  # who sends waits for the answer before it sends the next
            sent.setdefault((name, which), []).append(message)
            unanswered[which] = [all_[which].send(name, message)]
        elif what == "group":
            for own in LOCAL:
                sent.setdefault((own, which), []).append(message)
            all_[which].group_send("g", message)
        elif what == "receive":
            waiting.append((which, all_[which].receive("jobs")))
        elif what == "cut" and node.up:
            node.cut()
        elif what == "connect" and not node.up:
            node.connect()
        elif what == "settle":
            net.settle(0.1)
        for _ in range(which if what == "deliver" else 0):
            if net.sent:
                net.deliver_one()
    was_cut = any(what == "cut" for what, _, _ in steps)
    for node in net.nodes.values():
        if not node.up:
            node.connect()
    net.settle(10)
    got: dict[str, list[bytes]] = {
        own: [one for one in peer.got(*(peer.receive(own) for _ in range(number))) if one is not None]
        for peer, own in zip(all_, LOCAL, strict=True)
    }
    for _ in range(number):
        waiting.append((0, all_[0].receive("jobs")))
        net.run()
    # Each receiver by itself has what one sender sent in its order; of several, who is first is not seen here.
    got["jobs"] = [one for which, at in waiting for one in all_[which].got(at) if one is not None]
    for (name, which), theirs in sent.items():
        arrived = [one for one in got[name] if one.startswith(b"%d " % which)]
        promises.kept(len(set(arrived)) == len(arrived), f"doubled at {name}: {arrived}")
        if name != "jobs":
            # What waits for a broken way may change places with what is sent to a group, and the other way round.
            for kind in (b"send", b"group") if was_cut else (b"",):
                some = [one for one in arrived if one.endswith(kind)]
                promises.kept(some == [one for one in theirs if one in some], f"out of order at {name}: {arrived}")
        if name in ("jobs", *LOCAL) and not was_cut:
            promises.kept(sorted(arrived) == sorted(theirs), f"lost at {name}: {theirs}, got {arrived}")
