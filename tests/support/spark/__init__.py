"""Helpers of the tests of spark."""
