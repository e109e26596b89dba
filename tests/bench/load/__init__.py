"""Tests of fastpath/bench/load."""
