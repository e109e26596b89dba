"""Suites that run on Debian's PostgreSQL as well."""
