"""Tests of fastpath/server."""
