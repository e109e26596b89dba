"""Tests of realtime.publishing.outbox."""
