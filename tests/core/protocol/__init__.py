"""Tests of fastpath/core/protocol."""
