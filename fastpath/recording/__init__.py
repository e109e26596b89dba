"""Records what subjects say, with the times, to files, and plays it back to any server (docs/develop/recording.md)."""
