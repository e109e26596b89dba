"""Tests of the Python clients."""
