"""What a measurement runs on: the machine's description, processes it starts, what /proc says of them."""
