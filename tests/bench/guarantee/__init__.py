"""Tests of fastpath/bench/guarantee."""
