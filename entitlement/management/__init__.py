"""Entitlement from the command line."""
