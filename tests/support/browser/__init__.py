"""Helpers of the tests of browser."""
