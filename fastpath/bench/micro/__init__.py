"""Measurements of single parts: what figures, rules, patterns, publish() and the outbox cost."""
