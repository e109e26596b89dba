"""Helpers of the tests of recording."""
