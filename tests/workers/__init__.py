"""Several processes behind one port: one order, one state, and what happens when one of them dies."""
