"""Tests of realtime/management/commands."""
