"""What the product promises in times and rates, measured on a machine that does nothing else: `make measure`."""
