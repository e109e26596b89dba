"""Tests of realtime/nodes."""
