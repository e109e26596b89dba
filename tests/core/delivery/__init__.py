"""Tests of fastpath/core/delivery."""
