"""Suites that run on Debian's MariaDB as well."""
