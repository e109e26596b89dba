"""Rows of transactions in files beside the journal: they wait there for their commit."""
