"""Tests of fastpath/bench/machine."""
