"""Whatever is accepted for publication is read by every client of ours, in both forms: generated, and at the doors."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastpath.client import connect
from fastpath.client.control.client import Control
from fastpath.client.message import Status
from fastpath.client.publisher import Publisher
from fastpath.core.protocol.codec import JSON, MSGPACK, Form, decode_server, encode_message
from fastpath.core.protocol.messages import Data, Message
from fastpath.core.protocol.packets import Batch, Unpacker, pack, read_publications, unpack_published
from tests.support.browser.node import CLIENT, in_node
from tests.support.sidecar import Sidecar

pytestmark = pytest.mark.browser

FORMS: tuple[Form, ...] = (JSON, MSGPACK)
EDGES = (0, 1, 127, 128, 255, 256, 2**15, 2**16, 2**31, 2**32, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
NUMBERS = st.sampled_from(EDGES + tuple(-n for n in EDGES if n <= 2**63)) | st.integers(-(2**63), 2**64 - 1)
NAMES = st.sampled_from(["__proto__", "constructor", "b", "op", "toString", "0", "\0", "é" * 256, "👍"])
TEXTS = st.text(max_size=40) | st.sampled_from(
    ["\0", "\u2028", "\ufeff", "\ufffe", "\x7f", '"\\', "👩‍👩‍👧‍👦", "é" * 256]
)
VALUES = TEXTS | st.binary(max_size=40)
AS_OF = (
    NUMBERS
    | TEXTS
    | st.booleans()
    | st.floats()
    | st.dictionaries(st.sampled_from(["time", "batch", "job", "version", "when", "__proto__"]), NUMBERS | TEXTS)
)
META = st.fixed_dictionaries(
    {},
    optional={
        "as_of": AS_OF,
        "reply_to": TEXTS,
        "closure": TEXTS,
        "retained": st.booleans(),
        "qos": st.sampled_from(["guaranteed", "standard"]),
        "replace": st.booleans(),
        "removed": st.booleans(),
        "traceparent": TEXTS | st.just("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    },
)
ROWS = st.tuples(
    st.just("/values/one"), VALUES, st.none() | st.dictionaries(NAMES | st.text(max_size=5), VALUES, max_size=20), META
)

READ = """
    const { readFileSync } = await import("node:fs");
    const { ClientState } = await import(new URL("./client/session/protocol.js", argument.client).href);
    const plain = (value) => typeof value === "string" ? value : { b: Buffer.from(value).toString("base64") };
    const frames = JSON.parse(readFileSync(argument.path, "utf8"));
    const states = {};
    for (const form of ["json", "msgpack"]) {
        const state = states[form] = new ClientState("json");
        state.open("", "json");
        state.following.subscribe("owner", ["/values/one"], { history: 0, conflation: 0, slow: "close", since: {} });
        const results = [{ subject: "/values/one", sid: 1, epoch: 1, seq: 0 }];
        state.receive(JSON.stringify({ op: "subscribed", id: 2, results }));
        state.form = form;
    }
    return frames.map(({ form, data }) => {
        const bytes = Buffer.from(data, "base64");
        try {
            const [{ message }] = states[form].receive(form === "json" ? bytes.toString() : new Uint8Array(bytes));
            const fields = Object.entries(message.fields).map(([name, value]) => [name, plain(value)]);
            return { content: plain(message.content), fields,
                asOf: message.asOf, replyTo: message.replyTo, closure: message.closure, removed: message.removed,
                retained: message.retained };
        } catch (error) { return String(error.stack); }
    });
"""


def accepted(rows: list[Any]) -> list[Message]:
    """What the publisher port takes of rows; the other doors read what they are given by the same rules."""
    [packet] = Unpacker(1 << 22, unpack_published).feed(pack(["batch", 1, rows]))
    return read_publications(packet.messages if isinstance(packet, Batch) else packet[2])[0]


def shown(value: str | bytes) -> Any:
    return value if isinstance(value, str) else {"b": base64.b64encode(value).decode()}


def expected(message: Message) -> dict[str, Any]:
    """What each client has to tell of it."""
    return {
        "content": shown(message.content),
        "fields": sorted([name, shown(value)] for name, value in (message.fields or {}).items()),
        "asOf": message.as_of,
        "replyTo": message.reply_to or "",
        "closure": message.closure or "",
        "removed": message.removed,
        "retained": message.retained,
    }


def test_whatever_is_accepted_is_read_by_every_client(tmp_path: Path) -> None:
    """The Python client at once, the JavaScript client all of it together: the same in both forms, and nothing else."""
    frames: list[dict[str, str]] = []
    wanted: list[dict[str, Any]] = []

    @settings(max_examples=150, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(ROWS, min_size=1, max_size=8))
    def generate(rows: list[tuple[Any, ...]]) -> None:
        for message in accepted([list(row) for row in rows]):
            message.weigh()
            message.time = 1000
            for form in FORMS:
                data = encode_message(message, 1, 0, form)
                read = decode_server(data, form)
                assert isinstance(read, Data)
                assert (read.content, read.fields) == (message.content, message.fields or {})
                assert read.meta.as_of == message.as_of
                frames.append({"form": form, "data": base64.b64encode(data).decode()})
                wanted.append(expected(message))

    generate()
    assert len(frames) > 200
    path = tmp_path / "frames.json"
    path.write_text(json.dumps(frames))
    found = in_node(READ, {"client": CLIENT, "path": str(path)})
    for frame, one, own in zip(frames, found, wanted, strict=True):
        assert isinstance(one, dict), (frame, one)
        assert one | {"fields": sorted(one["fields"])} == own, frame


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One without rights."""
    with Sidecar(mode="none") as sidecar:
        yield sidecar


ROWS_OF_DOORS: list[list[Any]] = [
    ["", None, {}],
    ["x" * (1 << 20), None, {}],
    ["\0" * (1 << 18), None, {}],
    [b"\xff" * (1 << 20), None, {}],
    ["a", {str(n): "é" for n in range(256)}, {}],
    ["a", {"__proto__": "1", "constructor": b"\0", "b": "2", "é" * 256: ""}, {}],
    ["🎉\u2028\ufeff\ufffe", {"\0": "\x7f"}, {"as_of": 2**53 - 1}],
    ["a", None, {"as_of": -(2**53) + 1, "closure": "🎉" * 256, "reply_to": "/r/" + "s" * 500}],
    ["a", None, {"as_of": "🎉" * 256, "retained": False, "qos": "standard"}],
    ["a", None, {"as_of": {"time": 2**53 - 1, "batch": 0, "job": "\0", "version": 2**53 - 1}}],
    ["a", {"own": "1"}, {"replace": True, "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}],
    ["", {"why": "over"}, {"removed": True}],
]
TOO_MUCH = [2**53, -(2**53), 1_795_883_791_704_842_422, 2**64 - 1, {"time": 2**53}, {"version": 2**63}]


def size(value: str | bytes) -> int:
    return len(value if isinstance(value, bytes) else value.encode())


HEARD = """
    const names = [], got = [];
    const onStatus = ({ name }) => { if (["disconnected", "error"].includes(name)) names.push(name); };
    const client = connect({ urls: argument.url, form: argument.form, onStatus });
    client.subscribe("/doors/values", (message) => got.push(message), { history: 1000 });
    const end = performance.now() + 20_000;
    const pause = () => new Promise((resolve) => setTimeout(resolve, 10));
    while (got.length < argument.count && performance.now() < end) await pause();
    const size = (value) => typeof value === "string" ? Buffer.byteLength(value) : value.length;
    return [got.map(({ content, fields, asOf }) => [size(content), Object.keys(fields).length, asOf]), names];
"""


async def test_at_the_doors(sidecar: Sidecar) -> None:
    """Through a real sidecar: what it takes, every client reads in both forms; what it refuses has its reason."""
    with Publisher(sidecar.publisher_url) as publisher, Control(sidecar.control) as control:
        rows = [["/doors/values", *row] for row in ROWS_OF_DOORS]
        publisher.send_batch(rows)
        publisher.flush()
        publisher.send_batch([["/doors/refused", "x", None, {"as_of": as_of}] for as_of in TOO_MUCH])
        refused = publisher.flush(raise_refused=False).refused
        assert [one.code for one in refused] == ["invalid"] * len(TOO_MUCH)
        assert all("as_of" in one.reason and "2^53 - 1" in one.reason for one in refused)
        assert control.snapshot("/doors/refused")["status"] == "none"
    numbered = [row for row in ROWS_OF_DOORS if row[2].get("qos") != "standard"]
    wanted = [[size(content), len(fields or {}), meta.get("as_of")] for content, fields, meta in numbered]
    for form in FORMS:
        argument = {"url": sidecar.client_url, "form": form, "count": len(numbered)}
        assert in_node(HEARD, argument) == [wanted, []]
        told: list[Status] = []
        async with connect(sidecar.client_url, form=form, on_status=told.append) as client:
            found = []
            async for message in client.subscribe("/doors/values", history=1000):
                found.append([size(message.content), len(message.fields), message.as_of])
                if len(found) == len(wanted):
                    break
        assert found == wanted
        assert "disconnected" not in {one.name for one in told}
