"""Tests of spark/source."""
