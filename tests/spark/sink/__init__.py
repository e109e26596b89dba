"""Tests of spark/sink."""
