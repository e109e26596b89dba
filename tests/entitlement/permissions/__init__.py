"""Tests of entitlement/permissions."""
