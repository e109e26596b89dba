"""The measurements F1 to F11 and the search for a capacity: what is set up, loaded and counted."""
