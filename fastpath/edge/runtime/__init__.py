"""What every component of one process uses: the runtime, what components offer, fair turns, the poller, the clock."""
