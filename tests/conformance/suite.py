"""One test of the public suite eclipse/paho.mqtt.testing, in this process: FOLDER VERSION NAME HOST:PORT.

A subscription of QoS 2 is granted QoS 1 here (5: 3.9.3), and the suite wants to see 2. So what it subscribes to and
publishes with QoS 2 is read as 1, but for what is about QoS 2 itself.
"""

from __future__ import annotations

import os
import re
import sys
import types
import unittest
from pathlib import Path
from typing import Any

MODULES = {"3.1.1": "client_test", "5": "client_test5"}

NOT_SUBSCRIBABLE = "test/nosubscribe"
"""The topic that a broker under test lets nobody subscribe to."""

TOPICS = ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")
FILTERS = ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")

AS_WRITTEN = ("test_flow_control2",)
"""What exceeds the server's receive maximum, which only publications of QoS 2 can that are not released."""

_LOWERED = (
    (r"(publish\(.*?), ?2(\)|, retained|, properties)", r"\1, 1\2"),
    (r"(\.subscribe\(\[[^\]]*\], ?)\[2(, 1)?\]", r"\1[1\2]"),
    (r"SubscribeOptions\(2", "SubscribeOptions(1"),
    (r"qos ?= ?2\b", "qos=1"),
    (r"(messages\[\d\]\[2\]) == 2", r"\1 == 1"),
    (r"(assertEqual\(callback\.messages\[0\]\[2\]), 2,", r"\1, 1,"),
    ("1 in qoss and 2 in qoss and 0 in qoss", "1 in qoss and 0 in qoss"),
)


def names(folder: Path, version: str) -> list[str]:
    """The tests of the suite."""
    text = (folder / f"{MODULES[version]}.py").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"^ +def (test\w+)\(self\)", text, re.MULTILINE)))


def load(folder: Path, version: str, *, lowered: bool) -> Any:
    """The suite's module."""
    path = folder / f"{MODULES[version]}.py"
    text = path.read_text(encoding="utf-8")
    for found, put in _LOWERED if lowered else ():
        text = re.sub(found, put, text)
    module = types.ModuleType(MODULES[version])
    sys.modules[module.__name__] = module
    module.__file__ = str(path)
    exec(compile(text, str(path), "exec"), module.__dict__)
    if lowered:
        _lower_wills(module.mqtt_client.Client)  # type: ignore[attr-defined]
    return module


def _lower_wills(client: Any) -> None:
    """Wills have QoS 2 where nothing else is said."""
    before = client.connect

    def connect(self: Any, *arguments: Any, **rest: Any) -> Any:
        return before(self, *arguments, **{"willQoS": 1} | rest)

    client.connect = connect


def main(folder: Path, version: str, name: str, address: str) -> int:
    """0 when the test has passed."""
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    module = load(folder, version, lowered=name not in AS_WRITTEN)
    host, _, port = address.rpartition(":")
    # What the suite's own programs say before they begin.
    module.host, module.port, module.topic_prefix = host, int(port), "client_test5/"
    module.topics, module.wildtopics, module.nosubscribe_topics = TOPICS, FILTERS, (NOT_SUBSCRIBABLE,)
    test = unittest.defaultTestLoader.loadTestsFromName(name, module.Test)
    return int(not unittest.TextTestRunner(verbosity=2).run(test).wasSuccessful())


if __name__ == "__main__":
    status = main(Path(sys.argv[1]), *sys.argv[2:5])
    sys.stdout.flush()
    os._exit(status)  # threads of the suite do not end by themselves
