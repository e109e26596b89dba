"""What an earlier revision has written is taken over: journals, staged rows, and the data in Redis."""
