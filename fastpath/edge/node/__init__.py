"""What the workers of a node tell each other: the messages, and how any part of a worker sends and hears them."""
