"""Tests of fastpath/core/cache."""
