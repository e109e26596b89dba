"""Scripts that set up and check this project."""
