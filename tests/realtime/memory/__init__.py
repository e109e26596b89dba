"""Tests of realtime.memory."""
