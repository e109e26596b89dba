"""Tests of realtime/process."""
