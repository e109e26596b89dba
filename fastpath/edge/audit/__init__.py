"""The audit: events on the data path, a bounded queue, files and listeners (docs/operate/audit.md)."""
