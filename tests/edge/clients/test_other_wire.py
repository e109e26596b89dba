"""What clients see at the edge holds as well over a wire that no file of the product knows, through real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from tests.edge.clients import test_batches as batches
from tests.edge.clients import test_conflated as conflated
from tests.edge.clients import test_connection as delivery
from tests.edge.clients import test_rights as rights
from tests.edge.clients import test_slow as slow
from tests.edge.clients import test_slow_conflated as slow_conflated
from tests.edge.clients import test_wildcards as wildcards
from tests.edge.workers import test_drain as drain
from tests.support.edge.lines import LineClient, speaking_lines
from tests.support.edge.wire import PING, WireClient, WirePublisher, undisturbed
from tests.support.sidecar import Sidecar
from tests.support.waiting import until


@pytest.fixture(scope="module", autouse=True)
def lines() -> Iterator[None]:
    """Everybody speaks lines here."""
    with speaking_lines():
        yield


@pytest.fixture(scope="module")
def shared(lines: None) -> Iterator[Sidecar]:
    """In the place of the one that others share."""
    with Sidecar() as sidecar:
        yield sidecar
        assert "Traceback" not in sidecar.log


# Delivery

test_snapshot_and_live = delivery.test_nothing_is_missed_or_doubled_between_the_snapshot_and_live
test_unsubscribed = delivery.test_nothing_follows_the_answer_to_an_unsubscribe
test_standard_quality = delivery.test_standard_quality_in_a_guaranteed_server
test_patterns_again = wildcards.test_coming_back
test_conflated = conflated.test_one_message_an_interval_however_many_come
test_collected = batches.test_what_is_collected_is_sent_before_the_server_stops


def test_patterns(shared: Sidecar) -> None:
    wildcards.test_what_is_there_and_what_comes_to_be(shared, "json")


# Who does not read

test_order_while_blocked = slow.test_answers_and_messages_keep_their_order_for_a_blocked_client
test_one_slow_in_a_group = slow.test_a_slow_client_does_not_hold_up_its_own_group


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_slow_and_conflated(tmp_path: Path, secure: bool) -> None:
    slow_conflated.test_told_then_one_message_a_subject_then_live(tmp_path, secure)


# Rights

test_revoked_while_it_waits = rights.test_a_revoked_client_gets_nothing_of_what_waits_for_it
test_rights_to_publish = rights.test_publishing_follows_the_rights_at_once
test_tokens = rights.test_a_token_is_renewed_and_ends


def test_cut_and_resumed() -> None:
    rights.test_a_denial_cuts_and_a_grant_resumes("json")


def test_nothing_revoked_leaves() -> None:
    rights.test_nothing_revoked_comes_out_of_a_backed_up_queue("json")


# Drain

test_drain_in_turns = drain.test_clients_go_in_turns_and_resume_without_loss
test_drain_called_off = drain.test_it_can_be_called_off_and_those_who_were_not_told_stay
test_drain_behind_a_queue = drain.test_what_waits_for_a_slow_client_comes_before_the_notice

# Back-pressure


def test_what_is_beyond_the_rate_waits_and_none_is_lost() -> None:
    """And is not read from the socket meanwhile; who has said less is not held up."""
    with Sidecar(commands_per_second_max=200, publications_per_second_max=100) as sidecar:
        with WireClient(sidecar) as hasty, WireClient(sidecar) as other:
            other.subscribe("/rate/one")
            publish = b'>{"op":"publish","subject":"/rate/one","content":"%d"}\n'
            hasty.send(b"".join(publish % number for number in range(200)))
            assert other.texts(200) == [str(number) for number in range(200)]
            hasty.send(b"".join(b'>{"op":"ping","id":%d}\n' % number for number in range(1, 401)))
            assert [hasty.answer("pong")["id"] for _ in range(400)] == list(range(1, 401))
        with Control(sidecar.control) as control:
            figures = control.stats()
        assert figures["limited_commands"] >= 1
        assert figures["limited_publications"] >= 1


def test_what_comes_at_once_is_handled_in_turns_and_in_order(shared: Sidecar) -> None:
    """Much more than is read at once, behind the first line; none is lost or answered out of order, and others go on
    meanwhile."""
    with WireClient(shared) as client, undisturbed(shared):
        assert isinstance(client, LineClient)
        client.send(b"".join(b'>{"op":"ping","id":%d}\n' % number for number in range(1, 20_001)))
        assert [client.answer("pong")["id"] for _ in range(20_000)] == list(range(1, 20_001))


# The wire itself


def test_it_is_pinged_and_who_does_not_answer_is_closed() -> None:
    with Sidecar(ping_seconds=1) as sidecar, WireClient(sidecar) as lives, WireClient(sidecar) as silent:
        for client in (lives, silent):
            client.subscribe("/pinged/one")
        assert silent.next_frame()[0] == PING
        with WirePublisher(sidecar) as publisher:
            until(lambda: lives.quiet() and "name=ping_timeout" in sidecar.log)
            publisher.publish(["/pinged/one", "x"])
            assert lives.texts(1) == ["x"]
        assert "transport=lines" in sidecar.log


def test_what_is_no_line_ends_its_own_connection(shared: Sidecar) -> None:
    with undisturbed(shared), WireClient(shared) as client:
        client.send(b'>{"op":"ping","id":1}\nnonsense\n>{"op":"ping","id":2}\n')
        assert client.answer("pong")["id"] == 1
        assert client.closed() == (4500, "bad_message")
