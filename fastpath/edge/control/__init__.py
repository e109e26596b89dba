"""The control socket and its verbs: rules, publications, clients, subjects, rankings, traces (protocol.md 8)."""
