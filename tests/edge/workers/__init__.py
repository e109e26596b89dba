"""Tests of fastpath/edge/workers."""
