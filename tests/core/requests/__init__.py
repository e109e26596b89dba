"""Tests of fastpath/core/requests."""
