"""Tests of fastpath/core/presence."""
