"""What a client does, as a table, and the program that holds any client against it by its driver."""
