"""The examples of delivery through real sockets hold as well when clients and publishers are on different workers."""

from __future__ import annotations

from tests.edge.clients import test_connection as delivery
from tests.edge.clients import test_wildcards as wildcards

# Each of them takes the fixture `shared`, which is a sidecar of two workers here.
test_snapshot_and_live = delivery.test_nothing_is_missed_or_doubled_between_the_snapshot_and_live
test_unsubscribed = delivery.test_nothing_follows_the_answer_to_an_unsubscribe
test_standard_quality = delivery.test_standard_quality_in_a_guaranteed_server
test_patterns = wildcards.test_what_is_there_and_what_comes_to_be
test_patterns_again = wildcards.test_coming_back
