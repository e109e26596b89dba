"""Helpers of the tests of core."""
