"""Schema changes of the entitlement tables."""
