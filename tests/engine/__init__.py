"""Tests of the engines: what is numbered, kept and found again."""
