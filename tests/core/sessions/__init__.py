"""Tests of fastpath/core/sessions."""
