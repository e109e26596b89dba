"""The pure core: no socket, loop, clock, thread, file or log; time is an argument."""
