"""Helpers of the tests of entitlement."""
