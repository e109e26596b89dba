"""What the tests share: a real sidecar process, tokens, waiting for an event."""
