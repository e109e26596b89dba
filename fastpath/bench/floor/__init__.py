"""The floor: the least that a WebSocket fan-out can cost, as a C program, and how it is compiled."""
