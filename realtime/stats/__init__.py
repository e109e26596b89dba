"""Statistics over 12 windows: collected from all nodes, kept in the database (docs/operate/figures.md)."""
