"""Faults under load, and a checker that knows every publication and every frame (docs/operate/reliability.md)."""
