"""Helpers of the tests of realtime."""
