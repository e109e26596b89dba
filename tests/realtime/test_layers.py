"""The channel layer against a real sidecar: all that Channels asks of one, and what happens around a restart."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from channels.exceptions import ChannelFull
from channels.layers import channel_layers, get_channel_layer
from django.core.exceptions import ImproperlyConfigured
from django.utils.functional import lazy
from django.utils.safestring import mark_safe

from fastpath.client.errors import ControlRefused, SidecarSilent
from realtime import SidecarUnavailable
from realtime.layers import FastpathChannelLayer
from tests.support.channel_layer.sites import ONE, TWO, Site, figure, site
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, auntil, until

BACKEND = "realtime.layers.FastpathChannelLayer"


@pytest.fixture(scope="module", params=[ONE, pytest.param(TWO, marks=pytest.mark.redis)])
def shared(request: pytest.FixtureRequest) -> Iterator[Site]:
    """One that stays up; each test empties the layer. Over two nodes one sends what the other receives."""
    with site(request.param) as found:
        yield found


@pytest.fixture
def layer(shared: Site) -> FastpathChannelLayer:
    """Three messages a channel."""
    made = shared.layer(capacity=3)
    async_to_sync(made.flush)()
    return made


@pytest.fixture
async def own() -> AsyncIterator[tuple[Sidecar, FastpathChannelLayer]]:
    """A sidecar that a test may kill."""
    with Sidecar() as sidecar:
        yield sidecar, FastpathChannelLayer(control=sidecar.control)


async def nothing(layer: FastpathChannelLayer, channel: str) -> bool:
    """What is sent now is the next message: nothing was there before it."""
    await layer.send(channel, {"type": "last"})
    return bool(await layer.receive(channel) == {"type": "last"})


def sockets() -> int:
    """How many sockets this process has open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return found


# Channels


async def test_a_message_is_received_as_it_was_sent(layer: FastpathChannelLayer) -> None:
    message = {"type": "a", "text": "Ahoj", "bytes": b"\x00\xff", "list": [1, -2.5, None, True], "dict": {"1": {}}}
    await layer.send("jobs", message)
    assert await layer.receive("jobs") == message


async def test_messages_of_one_sender_keep_their_order(layer: FastpathChannelLayer) -> None:
    for number in range(3):
        await layer.send("jobs", {"type": "n", "n": number})
    assert [(await layer.receive("jobs"))["n"] for _ in range(3)] == [0, 1, 2]


async def test_a_full_channel_raises_channel_full_and_has_room_again_when_one_is_received(
    layer: FastpathChannelLayer, shared: Site
) -> None:
    before = shared.figure("channel_messages_full")
    for _ in range(3):
        await layer.send("jobs", {"type": "a"})
    with pytest.raises(ChannelFull, match="jobs: the channel holds 3"):
        await layer.send("jobs", {"type": "b"})
    assert shared.figure("channel_messages_full") == before + 1
    await layer.receive("jobs")
    await layer.send("jobs", {"type": "c"})


async def test_channels_have_the_capacity_of_the_first_pattern_that_matches(shared: Site) -> None:
    layer = shared.layer(channel_capacity={"one": 1, "o*": 2}, prefix="capacities")
    for channel, capacity in ("one", 1), ("other", 2):
        for _ in range(capacity):
            await layer.send(channel, {"type": "a"})
        with pytest.raises(ChannelFull):
            await layer.send(channel, {"type": "a"})


async def test_a_process_local_channel_is_received_from_here_alone(layer: FastpathChannelLayer) -> None:
    first, second = await layer.new_channel(), await layer.new_channel("room")
    assert first.startswith("specific.")
    assert second.startswith("room.")
    assert first != second
    await layer.send(second, {"type": "2"})
    await layer.send(first, {"type": "1"})
    assert [await layer.receive(first), await layer.receive(second)] == [{"type": "1"}, {"type": "2"}]
    with pytest.raises(AssertionError, match="another process"):
        await layer.receive("specific.other!abc")


async def test_each_message_has_one_receiver(layer: FastpathChannelLayer) -> None:
    receivers = [asyncio.create_task(layer.receive("jobs")) for _ in range(3)]
    await asyncio.sleep(0)
    for number in range(3):
        await layer.send("jobs", {"type": "n", "n": number})
    assert [message["n"] for message in await asyncio.gather(*receivers)] == [0, 1, 2]


async def test_a_receiver_that_gives_up_takes_no_message_with_it(layer: FastpathChannelLayer, shared: Site) -> None:
    for _ in range(20):
        receiver = asyncio.create_task(layer.receive("jobs"))
        await auntil(lambda: shared.figure("channel_receivers") == 1)
        sending = asyncio.create_task(layer.send("jobs", {"type": "a"}))  # the two are under way at the same time
        await asyncio.sleep(0)
        receiver.cancel()
        await sending
        if (await asyncio.gather(receiver, return_exceptions=True)) != [{"type": "a"}]:
            assert await layer.receive("jobs") == {"type": "a"}


async def test_a_message_that_arrived_with_the_end_of_its_receiver_goes_to_the_next_one(
    layer: FastpathChannelLayer, shared: Site
) -> None:
    receiver = asyncio.create_task(layer.receive("jobs"))
    await auntil(lambda: shared.figure("channel_receivers") == 1)

    async def give_up() -> None:
        while shared.figure("channel_receivers"):  # blocks the loop: the message waits in the socket
            pass
        receiver.cancel()

    sender = threading.Thread(target=async_to_sync(layer.send), args=("jobs", {"type": "a"}))
    sender.start()
    await give_up()
    await asyncio.to_thread(sender.join)
    if (await asyncio.gather(receiver, return_exceptions=True)) != [{"type": "a"}]:
        assert await layer.receive("jobs") == {"type": "a"}


async def test_a_message_that_nobody_receives_in_time_is_over(shared: Site) -> None:
    """Of the same channel as another layer has it: what is sent last lives as long as it takes to receive it."""
    layer = shared.layer(expiry=0.05, prefix="expiry")
    before = shared.figure("channel_messages_expired")
    await layer.send("jobs", {"type": "a"})
    await auntil(lambda: shared.figure("channel_messages_expired") > before)
    assert await nothing(shared.layer(prefix="expiry"), "jobs")


# Groups


async def test_a_group_reaches_its_channels_and_no_others(layer: FastpathChannelLayer) -> None:
    names = [await layer.new_channel() for _ in range(3)]
    for name in names:
        await layer.group_add("room", name)
        await layer.group_add("room", name)
    await layer.group_discard("room", names[1])
    await layer.group_discard("room", names[1])
    await layer.group_send("room", {"type": "a"})
    assert [await layer.receive(names[0]), await layer.receive(names[2])] == [{"type": "a"}] * 2
    for name in names:
        assert await nothing(layer, name)


async def test_a_group_without_channels_takes_messages(layer: FastpathChannelLayer) -> None:
    await layer.group_send("nobody", {"type": "a"})


async def test_a_full_channel_of_a_group_holds_up_no_other_and_is_counted_and_logged(
    layer: FastpathChannelLayer, shared: Site, caplog: pytest.LogCaptureFixture
) -> None:
    before = shared.figure("channel_messages_full")
    slow, quick = await layer.new_channel(), await layer.new_channel()
    await layer.group_add("room", slow)
    await layer.group_add("room", quick)
    for number in range(5):
        await layer.group_send("room", {"type": "n", "n": number})
        assert (await layer.receive(quick))["n"] == number
    assert shared.figure("channel_messages_full") == before + 2
    # Of another node it is told behind the answer.
    await auntil(lambda: [record for record in caplog.records if record.name == "realtime.channels"])
    assert [record.getMessage() for record in caplog.records if record.name == "realtime.channels"] == [
        "1 of 2 channels in the group room are full and have not got a message; "
        "1 were left out since the last such line"
    ]


async def test_a_channel_leaves_its_group_in_time(shared: Site) -> None:
    layer = shared.layer(group_expiry=0.05, prefix="group-expiry")
    before = shared.figure("channel_memberships")
    await layer.group_add("room", "jobs")
    await auntil(lambda: shared.figure("channel_memberships") == before)
    await layer.group_send("room", {"type": "a"})
    assert await nothing(layer, "jobs")


async def test_flush_empties_channels_and_groups_of_this_prefix(shared: Site) -> None:
    layer, other = (shared.layer(prefix=prefix) for prefix in ("one", "two"))
    for each in layer, other:
        await each.send("jobs", {"type": each.prefix})
        await each.group_add("room", "more")
    await layer.flush()
    for each in layer, other:
        await each.group_send("room", {"type": each.prefix})
    assert await nothing(layer, "jobs")
    assert await nothing(layer, "more")
    assert [await other.receive("jobs"), await other.receive("more")] == [{"type": "two"}] * 2


# Loops, threads, processes


def test_every_call_may_come_from_a_loop_of_its_own(layer: FastpathChannelLayer, shared: Site) -> None:
    first, second = (async_to_sync(layer.new_channel)() for _ in range(2))
    async_to_sync(layer.group_add)("room", first)
    async_to_sync(layer.send)(second, {"type": "2"})
    async_to_sync(layer.group_send)("room", {"type": "1"})
    assert async_to_sync(layer.receive)(second) == {"type": "2"}
    assert async_to_sync(layer.receive)(first) == {"type": "1"}


def test_loops_that_have_ended_leave_no_connection_open(layer: FastpathChannelLayer) -> None:
    async_to_sync(layer.send)("jobs", {"type": "a"})
    before = sockets()
    for _ in range(20):
        async_to_sync(layer.group_send)("room", {"type": "a"})
    assert until(lambda: sockets() <= before)


def test_threads_with_loops_of_their_own_share_the_layer(layer: FastpathChannelLayer, shared: Site) -> None:
    count = 8
    channel = async_to_sync(layer.new_channel)()
    roomy = shared.layer(capacity=1000)

    def send() -> None:
        for _ in range(10):
            async_to_sync(roomy.send)(channel, {"type": "a"})

    threads = [threading.Thread(target=send) for _ in range(count)]
    for thread in threads:
        thread.start()

    async def receive() -> int:
        return len([await layer.receive(channel) for _ in range(10 * count)])

    assert asyncio.run(asyncio.wait_for(receive(), 2 * PATIENCE_SECONDS)) == 10 * count
    for thread in threads:
        thread.join()


def _in_child(layer: FastpathChannelLayer, channel: str, told: Any) -> None:
    inherited = sockets()
    name = async_to_sync(layer.new_channel)()
    if sockets() != inherited - 1:
        return  # the parent's connection has to end with the parent
    async_to_sync(layer.send)("jobs", {"type": "child"})
    try:
        async_to_sync(layer.receive)(channel)
    except AssertionError:
        told.send(name)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_child_after_a_fork_is_a_process_of_its_own(layer: FastpathChannelLayer) -> None:
    channel = await layer.new_channel()
    receiver = asyncio.create_task(layer.receive("jobs"))
    await layer.send(channel, {"type": "parent"})
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def fork() -> str:
        child = context.Process(target=_in_child, args=(layer, channel, there))
        child.start()
        name = str(here.recv()) if here.poll(20) else ""
        child.join(2 * PATIENCE_SECONDS)
        return name

    name = await asyncio.to_thread(fork)
    assert await asyncio.wait_for(receiver, PATIENCE_SECONDS) == {"type": "child"}
    assert name
    assert layer.non_local_name(name) != layer.non_local_name(channel)
    assert await layer.receive(channel) == {"type": "parent"}  # its connection goes on


# The sidecar goes and comes back


async def test_while_the_sidecar_is_away_senders_are_told_at_once(own: tuple[Sidecar, FastpathChannelLayer]) -> None:
    sidecar, layer = own
    await layer.send("jobs", {"type": "a"})
    sidecar.kill()
    for call in (
        layer.send("jobs", {"type": "a"}),
        layer.group_send("room", {"type": "a"}),
        layer.group_add("room", "jobs"),
        layer.group_discard("room", "jobs"),
        layer.flush(),
    ):
        with pytest.raises(SidecarUnavailable, match="does not answer at its control socket"):
            await call


async def test_receivers_and_groups_outlast_a_restart(own: tuple[Sidecar, FastpathChannelLayer]) -> None:
    sidecar, layer = own
    stays, left = await layer.new_channel(), await layer.new_channel()
    await layer.group_add("room", stays)
    await layer.group_add("room", left)
    receivers = [asyncio.create_task(layer.receive(channel)) for channel in (stays, left)]
    await auntil(lambda: figure(sidecar, "channel_receivers") == 2)
    sidecar.kill()
    with pytest.raises(SidecarUnavailable):
        await layer.group_discard("room", left)
    await asyncio.to_thread(sidecar.start)
    await auntil(lambda: figure(sidecar, "channel_receivers") == 2)
    await layer.group_send("room", {"type": "a"})
    assert await asyncio.wait_for(receivers[0], PATIENCE_SECONDS) == {"type": "a"}
    await layer.send(left, {"type": "direct"})
    assert await asyncio.wait_for(receivers[1], PATIENCE_SECONDS) == {"type": "direct"}


async def test_who_was_taken_out_by_another_process_does_not_come_back_with_a_restart(
    own: tuple[Sidecar, FastpathChannelLayer],
) -> None:
    sidecar, layer = own
    other = FastpathChannelLayer(control=sidecar.control)  # another process, as the sidecar sees it
    kept, thrown_out = await layer.new_channel(), await layer.new_channel()
    for channel in kept, thrown_out:
        await layer.group_add("room", channel)
    await other.group_discard("room", thrown_out)
    await layer.send("jobs", {"type": "a"})  # whose answer comes behind what this process is told
    await asyncio.to_thread(sidecar.stop)
    await asyncio.to_thread(sidecar.start)
    with suppress(SidecarUnavailable):  # the old connection is over; the next one says who is in groups
        await layer.group_send("nobody", {"type": "a"})
    await layer.group_send("room", {"type": "b"})
    assert await layer.receive(kept) == {"type": "b"}
    assert await nothing(layer, thrown_out)


async def test_a_sidecar_that_hangs_is_told_within_the_bound(
    own: tuple[Sidecar, FastpathChannelLayer], settings: Any
) -> None:
    sidecar, _ = own
    settings.REALTIME = settings.REALTIME | {"CONTROL_SECONDS": 1.0}
    layer = FastpathChannelLayer(control=sidecar.control)
    await layer.send("jobs", {"type": "a"})
    os.kill(sidecar.pid, signal.SIGSTOP)
    try:
        with pytest.raises(SidecarSilent):
            await layer.send("jobs", {"type": "b"})
    finally:
        os.kill(sidecar.pid, signal.SIGCONT)


# Settings and bad input


def test_the_setting_alone_makes_the_layer_and_names_the_control_socket_of_realtime(
    shared: Site, settings: Any
) -> None:
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": BACKEND, "CONFIG": {"expiry": 5, "prefix": "by-setting"}, "TEST_CONFIG": {"expiry": 7}}
    }
    settings.REALTIME = settings.REALTIME | {"CONTROL": [shared.control, "/nowhere"]}
    layer = get_channel_layer()
    assert isinstance(layer, FastpathChannelLayer)
    assert (layer.expiry, channel_layers.make_test_backend("default").expiry) == (5, 7)
    async_to_sync(layer.send)("jobs", {"type": "a"})
    assert async_to_sync(layer.receive)("jobs") == {"type": "a"}


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"expiry": 0}, "expiry is a number of seconds"),
        ({"group_expiry": "day"}, "group_expiry is a number of seconds"),
        ({"capacity": 0}, "capacity .* whole number from 1"),
        ({"channel_capacity": {"a": 1.5}}, r"\(a\) is a whole number"),
        ({"prefix": "a!"}, "prefix is a text"),
    ],
)
def test_settings_that_make_no_sense_are_refused(config: dict[str, Any], told: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=told):
        FastpathChannelLayer(**config)


async def test_names_that_are_none_are_refused(layer: FastpathChannelLayer) -> None:
    for name in "=+135!", "x" * 100, "a b", 1, "":
        for call in (
            layer.send(name, {"type": "a"}),  # type: ignore[arg-type]
            layer.receive(name),  # type: ignore[arg-type]
            layer.group_add("room", name),  # type: ignore[arg-type]
            layer.group_add(name, "jobs"),  # type: ignore[arg-type]
            layer.group_discard(name, "jobs"),  # type: ignore[arg-type]
            layer.group_send(name, {"type": "a"}),  # type: ignore[arg-type]
        ):
            with pytest.raises(TypeError, match="name must be a valid unicode string"):
                await call


async def test_messages_that_cannot_be_sent_are_refused_and_texts_of_django_are_texts(
    layer: FastpathChannelLayer,
) -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"d": deep}
    for message, told in (("text", "is a dict"), ({"o": object()}, "a object cannot"), ({"n": 1 << 70}, "64 bits")):
        with pytest.raises(TypeError, match=told):
            await layer.send("jobs", message)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="too deep"):
        await layer.group_send("room", deep)
    with pytest.raises(ControlRefused, match="too_large"):
        await layer.send("jobs", {"type": "x" * (1 << 20)})
    await layer.send("jobs", {"type": mark_safe("a"), "lazy": lazy(lambda: "b", str)()})
    assert await layer.receive("jobs") == {"type": "a", "lazy": "b"}
