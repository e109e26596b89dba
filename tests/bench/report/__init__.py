"""Tests of fastpath/bench/report."""
