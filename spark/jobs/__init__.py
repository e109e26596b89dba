"""Spark jobs that run as processes of their own."""
