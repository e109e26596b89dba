"""The thing: publishes a temperature over MQTT each second, until SIGTERM; it knows nothing of Django."""

from __future__ import annotations

import itertools
import math
import os
import signal
import threading

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
signal.signal(signal.SIGINT, lambda *_: ended.set())

client = Client(CallbackAPIVersion.VERSION2, client_id="hall", protocol=MQTTProtocolVersion.MQTTv5)
client.username_pw_set("sensor", "demo")
client.connect_async("127.0.0.1", int(os.environ.get("SENSOR_PORT", "1883")))
client.reconnect_delay_set(1, 5)
client.loop_start()  # connects when the sidecar is there, and again whenever it was away
for second in itertools.count():
    client.publish("/sensors/hall/temperature", f"{21 + math.sin(second / 60):.2f}", qos=1, retain=True)
    if ended.wait(1):
        break
client.disconnect()
client.loop_stop()
