"""The table of semantics (truth.json): core, socket, snapshot API, control and admin agree on each row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from entitlement import conf, tokens
from entitlement.following import compiler
from entitlement.models import Rule as Saved
from entitlement.permissions.answers import ACTIONS
from entitlement.rules.explain import explain, person
from fastpath.client.control.client import Control
from fastpath.core.auth.grants import Principal
from fastpath.core.auth.jwt_grants import permission_set
from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.auth.rules import Rule, RuleSet
from fastpath.core.protocol.subject import presence_of
from realtime.nodes.control_sockets import control as shared_control
from tests.support.databases import settle
from tests.support.edge.wire import Ended, WireClient
from tests.support.entitlement.truth import IDS, Row, create, people, rows
from tests.support.sidecar import Sidecar
from tools.truth_table import PAGE, page

ROWS = rows()
HOLDERS = {"ann": ("user:1", "group:1", "group:2", "everyone"), "bob": ("user:2", "everyone")}
KEYS = {"user:ann": "user:1", "user:bob": "user:2", "group:desk": "group:1", "group:night": "group:2"}


def _id(row: Row) -> str:
    return row.says


@pytest.mark.parametrize("row", [row for row in ROWS if row.who != "gone"], ids=_id)
def test_core(row: Row) -> None:
    """The rights alone, without a token."""
    if row.action == "publish" and row.subject.startswith("/__sys__/"):
        return  # the broker refuses it before it asks for a right: the other tests
    rules = RuleSet()
    for number, text in enumerate(row.rules, 1):
        who, effect, action, pattern, *rest = text.split(" ")
        bounds = {word: int(rest[rest.index(word) + 1]) for word in ("from", "until") if word in rest}
        start, end = bounds.get("from"), bounds.get("until")
        if "off" not in rest:
            rules.put(Rule(number, KEYS.get(who, who), pattern, action, effect == "allow", start, end))
    grants = RuleGrants("")
    grants.replace(rules, {}, {}, 1, 0)
    user, uid = "" if row.who == "anonymous" else row.who, str(IDS.get(row.who, ""))
    claim = {ACTIONS[action]: patterns for action, patterns in row.permissions().items()}
    permitted = permission_set(claim) if user and claim else None
    holders = HOLDERS.get(row.who, ("anonymous", "everyone"))
    principal = Principal(None, row.who == "root", holders, user, uid, permitted)
    reason = grants.check(principal, row.action, row.subject, 0)
    assert (not reason) == row.allowed
    if reason:
        nothing = "no rule allows it" if permitted is None else "neither a rule nor the token allows it"
        assert reason == (f"rule {row.by} denies it" if row.by else nothing)
    elif row.by:
        asked = presence_of(row.subject) or row.subject
        rule = rules.decide(principal.holders, user, asked, row.action, 0, uid)
        assert rule is not None
        assert rule.id == row.by


@pytest.fixture(scope="module")
def running() -> Iterator[Sidecar]:
    """One sidecar for all rows."""
    with Sidecar(mode="rules", token_secret=conf.token_secret()) as sidecar:
        yield sidecar


class World:
    """A row's rules in the database and in force on the sidecar, whose subject has been published."""

    def __init__(self, row: Row, sidecar: Sidecar, admin: Client) -> None:
        self.row, self.sidecar = row, sidecar
        users = people()
        admin.force_login(users["root"])  # changes sessions, so before the rules are sent
        self.rules = [create(text) for text in row.rules]
        self.user = users.get(row.who)
        self.token = tokens.mint(self.user)[0] if self.user else ""
        users["gone"].is_active = False
        users["gone"].save()
        settle()
        at = compiler.position()
        assert at is not None
        records = compiler.full_set(at.generation)
        with Control(sidecar.control) as control:
            control.rules_begin(at.generation)
            for chunk in records.chunks():
                control.rules_chunk(**chunk)
            control.rules_commit(at.generation)
            if not row.subject.startswith("/__sys__/"):
                assert isinstance(control.publish([[row.subject, "x"]])["results"][0], int)

    def socket(self) -> bool:
        """What a client is answered."""
        try:
            with WireClient(self.sidecar) as client:
                client.ask("connect", "connected", **({"token": self.token} if self.token else {}))
                if self.row.action == "subscribe":
                    [result] = client.subscribe(self.row.subject)
                    assert result.get("error") in (None, "denied")
                    return "error" not in result
                answer = client.ask("publish", "published", subject=self.row.subject, content="y", closure="c")
                assert answer["status"] in ("ok", "denied")
                removal = {"subject": self.row.subject, "content": "", "removed": True, "closure": "d"}
                assert client.ask("publish", "published", **removal)["status"] == answer["status"]
                return bool(answer["status"] == "ok")
        except Ended as end:
            assert end.code == 4502
            return False

    def check(self) -> bool:
        """What control is answered."""
        with Control(self.sidecar.control) as control:
            return bool(control.check(self.row.subject, self.row.action, self.token or None)["allowed"])

    def snapshot(self) -> bool:
        """What the snapshot API answers, for who reads."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        answer = Client().get("/snapshot", {"subject": self.row.subject}, headers=headers)
        assert answer.status_code in (200, 401, 403, 404), answer.content
        return answer.status_code in (200, 404)

    def forwarded(self) -> bool:
        """What the web port hands on answers: history for who reads, a publication for who publishes."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if self.row.action == "subscribe":
            answer = Client().get("/api/history", {"subject": self.row.subject}, headers=headers)
            assert answer.status_code in (200, 401, 403), answer.content
            return bool(answer.status_code == 200)
        body = [{"subject": self.row.subject, "content": "z"}, {"subject": self.row.subject, "removed": True}]
        answer = Client().post("/api/publish", body, content_type="application/json", headers=headers)
        if answer.status_code == 401:
            return False
        outcome, removal = answer.json()["results"]
        assert outcome["status"] == removal["status"]
        assert outcome["status"] in ("ok", "denied")
        return bool(outcome["status"] == "ok")

    def preview(self, admin: Client) -> tuple[bool, int]:
        """What the admin's preview shows: the answer, and the number of the rule that decides."""
        query = {"user": self.user.pk if self.user else "", "subjects": self.row.subject, "show": "all"}
        page = admin.get("/admin/entitlement/rule/preview/", query).context["page"]
        [line] = [line for line in page.rows if line.subject == self.row.subject]
        verdict = line.read if self.row.action == "subscribe" else line.publish
        return verdict.allowed, self._number(verdict.rule)

    def explain(self) -> tuple[bool, int]:
        """What the explanation says, which must be what the sidecar says."""
        user = get_user_model().objects.get(pk=self.user.pk) if self.user else None
        explanation = explain(person(user), self.row.subject, self.row.action)
        sidecar = explanation.sidecar
        assert sidecar is not None
        if self.row.who == "gone":
            assert "there is no token" in sidecar.error
        else:
            assert (sidecar.allowed, sidecar.error, sidecar.warning) == (explanation.verdict.allowed, "", "")
        assert [line.rule for line in explanation.lines if line.decides] == [
            rule for rule in (explanation.verdict.rule,) if rule
        ]
        return explanation.verdict.allowed, self._number(explanation.verdict.rule)

    def _number(self, rule: Saved | None) -> int:
        return 0 if rule is None else self.rules.index(rule) + 1


@pytest.mark.parametrize("row", ROWS, ids=_id)
def test_everywhere(row: Row, running: Sidecar, settings: Any, client: Client, db: None) -> None:
    """Socket, control, HTTP on the web port, preview and explanation give the row's answer."""
    here = {"CONTROL": running.control, "LISTEN": running.settings["listen"]}
    if row.grants:
        here["PERMISSIONS"] = lambda user: row.permissions() if user.get_username() == row.who else {}
    settings.REALTIME = settings.REALTIME | here
    with shared_control():
        world = World(row, running, client)
        assert world.socket() == row.allowed
        assert world.check() == row.allowed
        assert world.forwarded() == row.allowed
        if row.action == "subscribe":
            assert world.snapshot() == row.allowed
        if not row.subject.startswith("/__sys__/"):  # nothing is there: nobody has published it
            assert world.preview(client) == (row.allowed, row.by)
        assert world.explain() == (row.allowed, row.by)


def test_the_table_of_the_documentation() -> None:
    """It is this one."""
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run tools/truth_table.py"
    assert len(ROWS) >= 60
