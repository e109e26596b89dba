"""How clients of each transport are told what the core tells them: WebSocket, event streams, polls, MQTT.

Laws:

* Who tells clients something knows the port (core/delivery/wire.py), and none of these: an import contract holds it.
* A wire makes bytes of what it is given and takes them apart again. It keeps nothing of any client.
* What was joined of whole pieces is split into the same pieces, and each is known by its head.
"""
