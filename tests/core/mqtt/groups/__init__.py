"""Tests of fastpath/core/mqtt."""
