"""Tests of fastpath.client.subscriber.transports."""
