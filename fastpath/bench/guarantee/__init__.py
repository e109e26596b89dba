"""What guaranteed delivery costs: acknowledgements, recovery, starts with a journal or Redis."""
