"""Rules and tokens for tests of the pure core."""

import jwt

from tests.support.core.stage import START, Stage

SECRET = "a secret of more than thirty-two bytes"
HOUR = 3600


def mint(user: str = "ann", uid: str = "1", seconds: int = HOUR, **claims: object) -> str:
    """A token as Django mints it (protocol.md 8.4)."""
    return jwt.encode(
        {
            "aud": "fastpath",
            "sub": user,
            "uid": uid,
            "groups": [],
            "su": False,
            "gen": 1,
            "exp": START // 1000 + seconds,
        }
        | claims,
        SECRET,
        "HS256",
    )


def rule(number: int, who: str = "user:1", pattern: str = "/s/*", allow: bool = True, **more: object) -> dict:
    """A rule as Django sends it (protocol.md 8.2)."""
    return {"id": number, "who": who, "pattern": pattern, "action": "subscribe", "allow": allow} | more


def fill(stage: Stage, *rules: dict, generation: int = 1) -> None:
    """A full set of rules arrives."""
    rights = stage.sessions.rights
    rights.begin()
    rights.add(list(rules), [], [])
    rights.commit(generation, stage.now)
    stage.end()


def change(stage: Stage, after: int, **parts: list) -> None:
    """A difference arrives."""
    empty = {"rules": [], "removed": [], "users": [], "sessions": []}
    stage.sessions.rights.change(after, after + 1, now=stage.now, **(empty | parts))
    stage.end()
