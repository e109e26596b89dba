"""Tests of fastpath/engine/redis/sessions."""
