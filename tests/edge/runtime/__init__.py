"""Tests of fastpath/edge/runtime."""
