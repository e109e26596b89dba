"""Tests of fastpath/core/matching."""
