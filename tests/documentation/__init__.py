"""The code blocks of the pages: each is run, or checked as what it is."""
