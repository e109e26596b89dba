"""What a subscriber of presence is told."""

from __future__ import annotations

from tests.support.edge.wire import WireClient

PRESENCE = "/__sys__/presence"


def present(client: WireClient, subject: str = "") -> tuple[dict[str, int], int]:
    """Who is there, with their connections, and how many are nobody in particular."""
    answer = client.ask("presence", "present", **({"subject": subject} if subject else {}))
    assert answer.get("subject", "") == subject
    return {user["user"]: user["connections"] for user in answer["users"]}, answer.get("anonymous", 0)


def event(client: WireClient) -> tuple[str, str, dict[str, str]]:
    """The next join or leave: where, what, who."""
    sid, seq, _, content, fields, meta = client.message()
    assert (seq, meta) == (0, {"retained": False})
    return client.subjects[sid].removeprefix(PRESENCE), content, fields
