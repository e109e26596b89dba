"""What is shipped: the wheel, built and installed beside a new project; the units of its services; its containers."""
