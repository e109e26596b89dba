"""Helpers of the tests of edge."""
