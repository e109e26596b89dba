"""Tests of fastpath/edge/channel_layer."""
