"""Tests of fastpath/edge/listen."""
