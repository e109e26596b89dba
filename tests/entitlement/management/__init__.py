"""Tests of entitlement/management."""
