"""Orders whose page moves: what is published belongs to the transaction that changes the order."""
