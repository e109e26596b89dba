"""A project that has chosen everything that the REST framework lets it choose, each so that an answer would show it."""
