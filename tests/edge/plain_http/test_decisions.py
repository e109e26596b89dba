"""What somebody may, and a subject's snapshot: over the control socket and over HTTP by the same component."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.calling import HttpPeer
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint

ANN = mint("ann", "5")


@pytest.fixture(scope="module")
def rules() -> Iterator[Sidecar]:
    """One user may read some subjects, and publish to others."""
    with Sidecar(mode="rules", token_secret=SECRET) as running:
        load_rights(
            running.control,
            rule(1, "user:5", "/d/**", "subscribe"),
            rule(2, "user:5", "/p/**", "publish"),
            generation=1,
        )
        with Control(running.control) as control:
            control.publish([["/d/one", "1", {"a": "x"}], ["/d/one", "2", {"b": "y"}], ["/d/bytes", b"\x00"]])
            control.publish([["/d/gone", "1"], ["/p/one", "1"]])
        yield running


WHO_GETS_WHAT = [
    ("/d/one", ANN, "found", 200),
    ("/d/bytes", ANN, "found", 200),
    ("/d/never", ANN, "none", 404),
    ("/p/one", ANN, "denied", 403),
    ("/d/one", "", "denied", 403),
    ("/d", ANN, "invalid", 400),
    ("/d/*", ANN, "invalid", 400),
    ("/d/one", "nonsense", "bad_token", 401),
    ("/d/one", mint("ann", "5", hours=-1), "bad_token", 401),
]


@pytest.mark.parametrize(("subject", "token", "status", "code"), WHO_GETS_WHAT)
def test_a_snapshot_is_the_same_over_both(rules: Sidecar, subject: str, token: str, status: str, code: int) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with Control(rules.control) as control, HttpPeer(rules) as peer:
        told = control.snapshot(subject, token or None)
        called = peer.ask("GET", f"/snapshot?subject={subject}", **headers)
        checked = control.check(subject, "subscribe", token)
    assert (told["status"], called.status) == (status, code)
    assert checked["allowed"] == (status in ("found", "none"))
    if status != "found":
        assert told["reason"] in called.json["detail"]
        assert checked["reason"].endswith(told["reason"] if not checked["allowed"] else "")
        return
    message = {name: value for name, value in called.json.items() if name != "kind"}
    if isinstance(told["message"]["content"], bytes):
        message["content"] = told["message"]["content"]
    assert message == told["message"]


def test_what_somebody_may_publish(rules: Sidecar) -> None:
    with Control(rules.control) as control:
        assert [
            control.check(subject, "publish", ANN)["allowed"] for subject in ("/p/one", "/d/one", "/__sys__/stats")
        ] == [True, False, False]
        assert control.check("/__sys__/stats", "publish", ANN)["reason"].endswith("belong to the server")


def test_nobody_is_known_before_the_rights_have_come() -> None:
    with (
        Sidecar(mode="rules", token_secret=SECRET) as fresh,
        Control(fresh.control) as control,
        HttpPeer(fresh) as peer,
    ):
        for token in ("", ANN, "nonsense"):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            assert control.snapshot("/d/one", token)["status"] == "not_ready"
            assert not control.check("/d/one", "subscribe", token)["allowed"]
            assert peer.ask("GET", "/snapshot?subject=/d/one", **headers).status == 503
