"""Coverage-guided fuzzing of everything that reads what others send; docs/limits.md says how and what it found."""
