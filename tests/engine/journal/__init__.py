"""Tests of fastpath/engine/journal."""
