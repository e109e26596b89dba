"""Tests of fastpath/client/publisher."""
