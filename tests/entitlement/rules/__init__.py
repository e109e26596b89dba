"""Tests of entitlement/rules."""
