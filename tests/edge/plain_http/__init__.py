"""Tests of fastpath/edge/plain_http."""
