"""Tests of fastpath/edge/telemetry."""
