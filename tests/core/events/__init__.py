"""Tests of fastpath/core/events."""
