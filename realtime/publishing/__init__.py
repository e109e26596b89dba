"""``publish()``: rows checked at the call, collected in transactions, sent once; and what failed of it."""
