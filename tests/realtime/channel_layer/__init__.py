"""Tests of realtime/channel_layer."""
