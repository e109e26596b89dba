"""Support for tests of the channel layer."""
