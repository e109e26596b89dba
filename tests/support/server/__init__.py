"""Helpers of the tests of server."""
