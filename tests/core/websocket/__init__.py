"""Tests of fastpath/core/websocket."""
