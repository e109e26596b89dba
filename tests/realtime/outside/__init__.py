"""Tests of realtime/outside."""
