"""Tests of fastpath/client/subscriber."""
