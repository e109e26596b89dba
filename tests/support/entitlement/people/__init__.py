"""A project whose users have other names, tables, columns and keys than Django's own."""
