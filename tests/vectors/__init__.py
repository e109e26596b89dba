"""Test vectors of the wire protocol; README.md says what they hold."""
