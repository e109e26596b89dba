"""Tests of realtime/monitoring."""
