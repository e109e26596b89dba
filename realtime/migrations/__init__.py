"""Schema changes of the realtime tables, of which there are none: these are about permissions."""
