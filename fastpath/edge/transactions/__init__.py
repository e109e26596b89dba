"""Rows that are staged and committed once: the frames ``stage`` and ``commit``, and what operators may ask of them."""
