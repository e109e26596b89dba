"""What the core counts: counters, durations, the busiest subjects, and what is sampled of them."""
