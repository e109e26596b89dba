"""Tests of fastpath/edge/transactions."""
