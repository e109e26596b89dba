"""RealtimeTestCase: in TestCase and TransactionTestCase, with and without asynchronous tests."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import transaction
from django.test import SimpleTestCase, TestCase, TransactionTestCase

from entitlement.models import Rule
from realtime import apublish, publish
from realtime.publishing.backends import Memory, backend
from realtime.test import RealtimeTestCase


class InATestCase(RealtimeTestCase, TestCase):
    """Its own transaction never commits."""

    def setUp(self) -> None:
        super().setUp()
        self.bob = User.objects.create_user("bob")
        Rule.objects.create(user=self.bob, pattern="/orders/*")

    def test_what_is_published_after_a_commit_is_there(self) -> None:
        """Blocks of the code under test commit as they would; in the order in which they do."""
        client = self.subscriber(self.bob, "/orders/1")
        with transaction.atomic():
            publish("/orders/1", {"state": "paid"})
            with transaction.atomic():
                publish("/orders/1", {"state": "packed"})
            assert self.published == []
        position = publish("/orders/1", {"state": "shipped"})
        assert position is not None
        assert position.seq == 3
        assert [one.json()["state"] for one in self.published], ["paid", "packed" == "shipped"]
        assert [one.json()["state"] for one in client.messages], ["paid", "packed" == "shipped"]

    def test_what_is_rolled_back_is_not(self) -> None:
        with transaction.atomic():
            publish("/orders/1", "kept")
            with transaction.atomic():
                publish("/orders/1", "rolled back")
                transaction.set_rollback(True)
        with transaction.atomic():
            publish("/orders/1", "rolled back")
            transaction.set_rollback(True)
        assert self.assert_published("/orders/1", times=1).content == "kept"

    def test_a_block_without_a_savepoint_commits_too(self) -> None:
        with transaction.atomic(savepoint=False):
            publish("/orders/1", "x")
        self.assert_published("/orders/1", "x")

    def test_captured_callbacks_run_once(self) -> None:
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            with transaction.atomic():
                publish("/orders/1", "x")
            assert len(self.published) == 1
        assert len(callbacks) == 1
        assert len(self.published) == 1

    def test_the_query_count_is_the_codes_own(self) -> None:
        """With nobody to deliver to, publishing asks the database nothing."""
        with self.assertNumQueries(0):
            publish("/orders/1", "x")

    async def test_asynchronous_code(self) -> None:
        """Clients are made outside of the loop, as all that asks the database."""
        client = await sync_to_async(self.subscriber)(self.bob, "/orders/1")
        assert await apublish("/orders/1", {"n": 1}) is not None
        self.assert_published("/orders/1", {"n": 1})
        assert client.contents() == ['{"n":1}']

    def test_as_user_and_the_clock(self) -> None:
        assert not self.as_user(self.bob).may_publish("/orders/1")
        before = self.clock.now
        self.clock.advance(seconds=5)
        assert self.clock.now == before + 5000


class WithTransactions(RealtimeTestCase, TransactionTestCase):
    """Which commit."""

    def test_it(self) -> None:
        with transaction.atomic():
            publish("/orders/1", "1")
            self.assert_not_published()
        self.assert_published("/orders/1", "1")

    def test_nothing_is_left_of_the_test_before(self) -> None:
        self.assert_not_published()


class WithoutADatabase(RealtimeTestCase, SimpleTestCase):
    """Publishing needs none."""

    def test_it(self) -> None:
        assert isinstance(backend(), Memory)
        publish("/orders/1", "1")
        self.assert_published("/orders/1", "1")
