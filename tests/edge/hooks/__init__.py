"""Tests of fastpath/edge/hooks."""
