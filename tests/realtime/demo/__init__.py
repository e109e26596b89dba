"""Tests of realtime/demo."""
