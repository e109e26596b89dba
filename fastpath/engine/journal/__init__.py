"""The embedded engine with a journal: what is numbered is in a file before anybody sees it, and on the disk in time."""
