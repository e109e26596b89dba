"""Tests of realtime/jmx."""
