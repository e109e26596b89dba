"""Tests of spark/live."""
