"""The sidecar as processes: what one is made of, the workers beside each other, and who watches them."""
