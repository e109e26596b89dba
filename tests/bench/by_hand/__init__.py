"""Tests of fastpath/bench/by_hand."""
