"""Tests of realtime."""
