"""What much of something costs, in seconds of the processor: the tests of it, which take long if each looks at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import process_time

from tests.client.subscriber import test_subscription_set
from tests.core.mqtt import test_outgoing
from tests.core.wires import test_mqtt_backfill
from tests.engine import test_order_fence
from tests.support.browser.node import CLIENT, in_node

from .rows import row

SECOND = 1.0
"""A hundred times what most of them take; ten times less than where each looks at all others."""
JAVASCRIPT = """
    const { Following } = await import(new URL("client/session/following.js", argument));
    const { ClientState } = await import(new URL("client/session/protocol.js", argument));
    const commands = [];
    const following = new Following((command) => commands.push(command));
    const numbers = [...Array(200).keys()];
    const options = { history: 0, conflation: 0, slow: "close", since: {} };
    const state = new ClientState("json");
    state.offer(["/prices/**"]);
    const subjects = [...Array(5000).keys()].map((number) => `/prices/${number}`);
    const begun = performance.now();
    following.subscribe("owner", numbers.map((number) => `/stocks/g${number}/*`), options);
    for (let one = 0; one < 10; one++) {
        for (const number of numbers) following.wanted.find(`/stocks/g${number}/${one}`, { position: [1, 1] });
    }
    following.open();
    for (const wanted of [true, false]) {
        for (const one of subjects) state.receive(JSON.stringify({ op: "interest", subjects: [one], wanted }));
    }
    return (performance.now() - begun) / 1000;
"""


def of(work: Callable[[], object]) -> Iterator[float]:
    """What it takes of the processor, again and again."""
    while True:
        began = process_time()
        work()
        yield process_time() - began


@row("work-many-patterns", at_most=SECOND)
def many_patterns() -> Iterator[float]:
    """A reconnection with 200 patterns over 2000 subjects."""
    yield from of(test_subscription_set.test_a_reconnection_with_many_patterns)


@row("work-interest", at_most=SECOND)
def interest() -> Iterator[float]:
    """Interest in 5000 subjects, each by itself."""
    yield from of(test_subscription_set.test_interest_in_many_subjects_is_not_walked_for_each_that_comes)


@row("work-javascript", at_most=2 * SECOND)
def javascript() -> Iterator[float]:
    """Both in the client for browsers."""
    while True:
        yield float(in_node(JAVASCRIPT, CLIENT))


@row("work-held-up", at_most=SECOND)
def held_up() -> Iterator[float]:
    """Ten thousand publishers who are held up cost each other nothing."""
    yield from of(test_order_fence.test_ten_thousand_who_are_held_up_cost_each_other_nothing)


@row("work-unacknowledged", at_most=SECOND)
def unacknowledged() -> Iterator[float]:
    """A thousand looks at 20,000 messages that wait for acknowledgements."""
    yield from of(test_outgoing.test_what_waits_for_acknowledgements_costs_nothing)


@row("work-missed", at_most=3 * SECOND)
def missed() -> Iterator[float]:
    """Three looks at all that a session can have, with the most filters; making it is in it."""
    look = test_mqtt_backfill.test_a_look_at_all_that_a_session_can_have_is_short
    yield from of(lambda: look(test_mqtt_backfill.LOOKS_MAX))
