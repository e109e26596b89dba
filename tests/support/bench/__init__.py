"""Helpers of the tests of bench."""
