"""What holds the code blocks of the documentation against the code that they are about."""
