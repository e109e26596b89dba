"""Helpers of the tests of engine."""
