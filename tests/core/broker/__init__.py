"""Tests of fastpath/core/broker."""
