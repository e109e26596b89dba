"""Notes of changes lock nothing, and are numbered as on MariaDB: the same tests."""

from __future__ import annotations

import pytest

from tests.mariadb.cases.test_notes import (
    short,
    test_a_note_counts_before_it_has_a_generation,
    test_a_rule_that_comes_with_many_changes_is_not_before_them,
    test_many_ask_at_once,
    test_nobody_waits_for_a_transaction_that_is_open,
    test_notes_of_many_rows_let_others_go_first,
    test_of_each_key_the_last_note_stays,
    test_rules_of_one_transaction_are_in_force_together,
    test_what_is_old_is_deleted_beside_open_transactions,
    test_who_asks_in_a_transaction_locks_nothing,
)

__all__ = [
    "short",
    "test_a_rule_that_comes_with_many_changes_is_not_before_them",
    "test_notes_of_many_rows_let_others_go_first",
    "test_of_each_key_the_last_note_stays",
    "test_rules_of_one_transaction_are_in_force_together",
    "test_a_note_counts_before_it_has_a_generation",
    "test_many_ask_at_once",
    "test_nobody_waits_for_a_transaction_that_is_open",
    "test_what_is_old_is_deleted_beside_open_transactions",
    "test_who_asks_in_a_transaction_locks_nothing",
]

pytestmark = pytest.mark.django_db(transaction=True)
