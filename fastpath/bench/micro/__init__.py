"""Measurements of single parts: what figures, rules and patterns cost."""
