"""The demonstration's instruments; nothing that a project uses imports it."""
