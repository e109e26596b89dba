"""The monitoring pages: what an operator sees and does."""
