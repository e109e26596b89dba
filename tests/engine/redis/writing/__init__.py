"""Tests of fastpath/engine/redis/writing."""
