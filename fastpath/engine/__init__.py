"""The engines: who numbers messages and keeps them."""
