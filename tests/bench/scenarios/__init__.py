"""Tests of fastpath/bench/scenarios."""
