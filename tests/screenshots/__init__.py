"""Pictures of the product at work for the manual, taken of itself: `python -m tests.screenshots`."""
