"""Tests of realtime/export."""
