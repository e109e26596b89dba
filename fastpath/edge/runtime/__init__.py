"""What every port of one process uses: the hub, fair turns, the poller, the socket writer, the clock's lateness."""
