"""Tests of fastpath/core/auth."""
