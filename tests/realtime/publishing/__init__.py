"""Tests of realtime/publishing."""
