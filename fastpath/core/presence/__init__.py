"""Who is online, who is on a subject, and what is wanted of what is advertised, over all processes and nodes."""
