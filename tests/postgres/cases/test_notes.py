"""Notes of changes lock nothing, and are numbered as on MariaDB: the same tests."""

from __future__ import annotations

import pytest

from tests.mariadb.cases.test_notes import (
    test_a_note_counts_before_it_has_a_generation,
    test_many_ask_at_once,
    test_nobody_waits_for_a_transaction_that_is_open,
    test_what_is_old_is_deleted_beside_open_transactions,
    test_who_asks_in_a_transaction_locks_nothing,
)

__all__ = [
    "test_a_note_counts_before_it_has_a_generation",
    "test_many_ask_at_once",
    "test_nobody_waits_for_a_transaction_that_is_open",
    "test_what_is_old_is_deleted_beside_open_transactions",
    "test_who_asks_in_a_transaction_locks_nothing",
]

pytestmark = pytest.mark.django_db(transaction=True)
