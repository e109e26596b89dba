"""Tests of realtime.test."""
