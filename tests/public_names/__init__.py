"""The names that users, clients and operators know: none goes."""
