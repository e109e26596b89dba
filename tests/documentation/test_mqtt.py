"""What docs/develop/mqtt.md types and writes, against a sidecar that takes any login."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.documentation.running import Run, shell
from tests.support.edge.wire import WireClient
from tests.support.guide import one
from tests.support.realtime.server import Program
from tests.support.sidecar import Sidecar

PAGE = "docs/develop/mqtt.md"


@pytest.fixture
def broker() -> Iterator[Sidecar]:
    """It listens for MQTT as well."""
    with Sidecar(listen="clients://127.0.0.1:0,publishers://127.0.0.1:0,mqtt://127.0.0.1:0") as running:
        yield running


def here(text: str, broker: Sidecar) -> str:
    """With the port that is here."""
    return text.replace("-h 127.0.0.1", f"-h 127.0.0.1 -p {port(broker)}").replace("1883", str(port(broker)))


def port(broker: Sidecar) -> int:
    """Where it listens for MQTT."""
    return int(broker.ready["mqtt"][0].rpartition(":")[2])


@pytest.mark.mosquitto
def test_a_sensor(broker: Sidecar) -> None:
    """A topic with a slash in front is the subject; one without is another."""
    with WireClient(broker) as client:
        client.ask("connect", "connected")
        client.subscribe("/sensors/hall/temperature", "/__mqtt__/sensors/hall/temperature")
        shell(here(one(PAGE, "sh", "sensors/hall/temperature"), broker))
        assert client.texts(2) == ["21.5", "22"]


@pytest.mark.mosquitto
def test_prices_with_fields(broker: Sidecar) -> None:
    text = here(one(PAGE, "sh", "mosquitto_sub"), broker)
    with Program(["bash", "-c", text], {}, r"/stocks/us/KO .*61\.50", 30) as program:
        assert "bid:61.49" in program.output


def test_a_program(broker: Sidecar) -> None:
    with WireClient(broker) as client:
        client.ask("connect", "connected")
        client.subscribe("/sensors/kitchen")
        run = Run(here(one(PAGE, "python", "paho"), broker), {"password": "demo"}).now()
        try:
            assert client.texts(1) == ["21.5"]
        finally:
            run.names["client"].disconnect()
            run.names["client"].loop_stop()
