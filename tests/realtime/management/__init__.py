"""Tests of realtime/management."""
