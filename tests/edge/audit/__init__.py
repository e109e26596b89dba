"""Tests of fastpath/edge/audit."""
