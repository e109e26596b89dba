"""Tests of the recorder and the replayer."""
