"""Tests of realtime/requests."""
