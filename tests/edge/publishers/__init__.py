"""Tests of fastpath/edge/publishers."""
