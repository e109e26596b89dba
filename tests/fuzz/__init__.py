"""Coverage-guided fuzzing of all that reads what others send; docs/operate/limits.md says how and what it found."""
