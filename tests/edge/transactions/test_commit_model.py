"""A node dies at any step of staging and committing, over and over: nothing is lost, nothing doubled, all in order."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.edge.lives import SUBJECTS, TRANSACTION, Driver, Life
from tests.support.promises import kept

SEEDS = st.integers(0, 1 << 32)
ONCE = (Phase.explicit, Phase.reuse, Phase.generate)
"""A seed is as good as any other: there is nothing to make smaller."""


def story(seed: int) -> None:
    """Three batches, and at most six crashes; then every row is there once, in the order of its attempt."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        driver = Driver(Path(name), chance)
        stored: list[tuple[str, str]] = []
        for batch in range(3):
            rows = [(chance.choice(SUBJECTS), f"{batch}.{number}") for number in range(chance.randint(0, 20))]
            written = driver.write(batch, rows)
            kept(sorted(written) == sorted(rows), (rows, written))
            stored += written
        for last in (False, True):
            for subject in SUBJECTS:
                found = driver.life.contents(subject)
                kept(found == [content for at, content in stored if at == subject], (subject, found, stored))
            if not last:
                driver.life.end()
                driver.life = Life(Path(name))
        assert driver.life.ask("commit", TRANSACTION, 2, [], {})[1]["repeated"] is True
        driver.life.end()


@settings(max_examples=8, deadline=None, phases=ONCE)
@given(SEEDS)
def test_every_row_is_stored_once_in_the_order_of_the_attempt_that_counts(seed: int) -> None:
    story(seed)


@pytest.mark.slow
@settings(max_examples=80, deadline=None, phases=ONCE)
@given(SEEDS)
def test_the_same_often(seed: int) -> None:
    story(seed)
