"""Tests of fastpath/edge/tracing."""
