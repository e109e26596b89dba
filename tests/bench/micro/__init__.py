"""Tests of fastpath/bench/micro."""
