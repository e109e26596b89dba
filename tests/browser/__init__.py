"""The JavaScript client and the pages, in a headless Chromium."""
