"""Tests of spark/bench."""
