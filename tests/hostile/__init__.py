"""What clients do that mean harm, and what it costs those who do not; docs/operate/limits.md has the table."""
