"""Tests of fastpath/logs."""
