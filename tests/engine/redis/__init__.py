"""Tests of fastpath/engine/redis."""
