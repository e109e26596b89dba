"""Tests of realtime/forwarding."""
