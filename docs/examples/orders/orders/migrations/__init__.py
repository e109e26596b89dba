"""Migrations of the example."""
