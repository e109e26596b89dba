"""Tests of realtime/stats."""
