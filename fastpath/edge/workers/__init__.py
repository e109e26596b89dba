"""Several processes behind the same ports: links, the leader's log, followers, presence, heartbeats, drain."""
