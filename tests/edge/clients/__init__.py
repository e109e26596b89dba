"""Tests of fastpath/edge/clients."""
