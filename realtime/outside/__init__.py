"""The statistics on an address of their own, beside the web server's (docs/operate/figures.md)."""
