"""Tests of fastpath/core/telemetry."""
