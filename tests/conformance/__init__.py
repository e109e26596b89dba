"""MQTT held against the standards by programs of others: see docs/reference/mqtt.md."""
