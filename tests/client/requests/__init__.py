"""Tests of fastpath/client/control."""
