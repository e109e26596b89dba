"""Tests of clients of MQTT on client ports."""
