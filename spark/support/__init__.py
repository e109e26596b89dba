"""What several jobs share: prices of the past, costs, rules."""
