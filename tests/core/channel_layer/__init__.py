"""Tests of fastpath/core/channel_layer."""
