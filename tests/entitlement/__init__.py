"""The Django app of rights, against a real database."""
