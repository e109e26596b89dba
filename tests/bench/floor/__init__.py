"""Tests of fastpath/bench/floor."""
