"""Tests of spark/jobs."""
