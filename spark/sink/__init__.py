"""The sink: rows of a batch become frames, are staged by tasks, and committed once."""
