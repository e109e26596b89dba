"""Tests of fastpath/edge/control."""
