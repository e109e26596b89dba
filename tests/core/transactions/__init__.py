"""Tests of fastpath/core/transactions."""
