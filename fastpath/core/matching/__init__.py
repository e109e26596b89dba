"""Subjects and patterns matched against each other: all subjects by segment, sets of patterns, patterns in use."""
