"""Tests of spark/jobs/desk."""
