"""From results to tables, charts and the pages of the documentation."""
