"""Tests of fastpath/bench/servers."""
