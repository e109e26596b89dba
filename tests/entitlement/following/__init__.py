"""Tests of entitlement/following."""
