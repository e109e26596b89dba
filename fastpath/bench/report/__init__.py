"""From results to tables, and charts, for the terminal and the pages of the documentation."""
