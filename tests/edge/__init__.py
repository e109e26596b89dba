"""Tests of the ports: a real sidecar process, real sockets, and everything that peers do wrong."""
