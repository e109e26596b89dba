"""Tests of fastpath/engine/staging."""
