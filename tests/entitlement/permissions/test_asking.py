"""Rights by the project's own Python: what its function answers, the token that has it, and who is told of faults."""

from __future__ import annotations

import logging
import threading
import types
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client, RequestFactory

import realtime
from entitlement import checks, conf, tokens
from entitlement.following import compiler
from entitlement.models import Change, Rule
from entitlement.passwords import PasswordChecks
from entitlement.permissions.answers import CLAIM_BYTES_MAX
from entitlement.permissions.asking import PermissionsError, permissions_of
from entitlement.permissions.refresh import refresh_rights
from entitlement.rules.explain import explain, person
from fastpath.client.control.client import Control
from fastpath.core.auth.keys import Keys
from fastpath.core.auth.tokens import verify
from fastpath.core.mqtt.packets import Disconnect
from fastpath.core.protocol.limits import SUBJECT_BYTES_MAX
from realtime.memory import current
from tests.support.databases import settle
from tests.support.edge.events import EventReader
from tests.support.edge.mqtt import LISTEN, mqtt
from tests.support.entitlement.live import RunningAgent, Viewer
from tests.support.realtime.server import WebServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

HERE = f"{__name__}.of_groups"


def of_groups(user: User) -> dict[str, list[str]]:
    """What a project may write: a subject for each group of the user."""
    return {"subscribe": [f"/desks/{name}/**" for name in user.groups.values_list("name", flat=True)]}


async def waits(user: User) -> dict[str, list[str]]:
    """Nobody awaits it."""
    return {}


def nobody() -> dict[str, list[str]]:
    """It is not told of whom."""
    return {}


class Rights:
    """A function that is an object, whose answer a test changes."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []

    def __call__(self, user: User, request: Any = None) -> Any:
        self.asked.append((user.get_username(), request))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


Use = Callable[[Any], Any]


@pytest.fixture
def use(settings: Any) -> Use:
    """Sets REALTIME["PERMISSIONS"]."""

    def set_it(given: Any) -> Any:
        settings.REALTIME = settings.REALTIME | {"PERMISSIONS": given}
        return given

    return set_it


def claim(token: str) -> dict[str, tuple[str, ...]]:
    """What a token permits."""
    return {kind: some for kind, some in verify(token, Keys(conf.token_secret()), 0).permissions.items() if some}


@pytest.mark.parametrize(
    ("answer", "permitted"),
    [
        (None, {}),
        ({}, {}),
        ({"subscribe": []}, {}),
        ({"subscribe": ["/b/*", "/a/**", "/b/*"]}, {"sub": ["/a/**", "/b/*"]}),
        ({"subscribe": ("/a/{user_id}",), "publish": {"/a/b"}, "both": iter(["/c/d"])}, None),
        (types.MappingProxyType({"publish": (f"/a/{n}" for n in range(2))}), {"pub": ["/a/0", "/a/1"]}),
        ({"subscribe": {"/a/b": 1}.keys()}, {"sub": ["/a/b"]}),
    ],
)
def test_answers(bob: User, use: Use, answer: Any, permitted: dict[str, list[str]] | None) -> None:
    use(lambda user: answer)
    expected = {"sub": ["/a/{user_id}"], "pub": ["/a/b"], "all": ["/c/d"]} if permitted is None else permitted
    assert permissions_of(bob) == expected


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (["/a/b"], "has answered ['/a/b']: rights are like {\"subscribe\": ["),
        ("/a/b", "has answered '/a/b': rights are like"),
        (True, "has answered True: rights are like"),
        ({"subscribe": "/a/b"}, "'/a/b' for 'subscribe': that is a list of patterns"),
        ({"subscribe": None}, "None for 'subscribe': that is a list of patterns"),
        ({"subscribe": {"/a/b": True}}, "that is a list of patterns"),
        ({"Publish": ["/a/b"]}, "the action 'Publish': write publish"),
        ({"sub": ["/a/b"]}, "the action 'sub': write subscribe"),
        ({7: ["/a/b"]}, "the action 7: rights are like"),
        ({"subscribe": [42]}, "42 for 'subscribe': a pattern is a text like '/orders/42/**'"),
        (
            {"subscribe": ["orders/42"]},
            "No leading slash (character 1): a pattern begins with a slash. Write /orders/42",
        ),
        ({"publish": ["/a/b", "/a/**/c"]}, "the pattern '/a/**/c' for 'publish': ** only as the last segment"),
        ({"publish": ["/user/{user_id}/x"]}, "Write /user/{username}/x instead."),
        ({"subscribe": [f"/a/{n}" for n in range(1001)]}, "1001 patterns of "),
        (
            {"subscribe": [f"/a/{n}/{'x' * 200}" for n in range(50)]},
            f"a token carries 1000, and {CLAIM_BYTES_MAX} bytes",
        ),
        ({"subscribe": (f"/a/{n}" for n in iter(int, 1))}, "over 10000 patterns for 'subscribe'"),
        ({"subscribe": ["/a/" + "x" * SUBJECT_BYTES_MAX]}, "… for 'subscribe': Too long"),
        (KeyError("tenant"), "failed: KeyError: 'tenant'"),
        (User.DoesNotExist("no profile"), "failed: DoesNotExist: no profile"),
    ],
)
def test_what_is_no_answer_gives_no_token(
    bob: User, use: Use, caplog: pytest.LogCaptureFixture, answer: Any, says: str
) -> None:
    """And the log says what to write instead, or where the function failed."""
    use(Rights(answer))
    with pytest.raises(PermissionsError) as caught:
        tokens.mint(bob)
    assert says in str(caught.value)
    assert str(caught.value).startswith("there is no token for bob: ")
    [record] = [record for record in caplog.records if record.name == "entitlement.permissions.asking"]
    assert (record.levelno, says in record.getMessage()) == (logging.ERROR, True)
    assert bool(record.exc_info) == isinstance(answer, Exception), "where it failed is told, and nothing else"


def test_it_is_asked_about_the_user_as_the_database_knows_him(bob: User, desk: Group, use: Use) -> None:
    """By its dotted path; and never about a superuser, who may do everything."""
    use(HERE)
    stale = User.objects.get(pk=bob.pk)
    bob.groups.add(desk)
    assert claim(tokens.mint(stale)[0]) == {"sub": ("/desks/NYSE desk/**",)}
    rights = use(Rights({"both": ["/**"]}))
    assert claim(tokens.mint(User.objects.create_superuser("root"))[0]) == {}
    with pytest.raises(tokens.MintError):
        tokens.mint(User.objects.create_user("gone", is_active=False))
    assert rights.asked == []


def test_the_request_is_given_to_who_asks_for_it(bob: User, use: Use) -> None:
    request = RequestFactory().get("/")
    rights = use(Rights({}))
    tokens.mint(bob, request=request)
    tokens.mint(bob)
    assert rights.asked == [("bob", request), ("bob", None)]
    client = Client()
    client.force_login(bob)
    assert client.post("/realtime/token/").status_code == 200
    assert (rights.asked[-1][1].path, rights.asked[-1][1].user.pk) == ("/realtime/token/", bob.pk)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (HERE, ""),
        (of_groups, ""),
        (Rights(), ""),
        ("", ""),
        (None, ""),
        (
            f"{__name__}.nothing",
            'test_asking" does not define a "nothing" attribute',
        ),
        ("shop.live.permissions", "names no function: No module named 'shop'"),
        ("permissions", "permissions doesn't look like a module path"),
        (f"{__name__}.HERE", "is a function of a user, or its dotted path"),
        (f"{__name__}.Rights", "is a function of a user, or its dotted path"),
        (42, "is a function of a user, or its dotted path, not 42"),
        (waits, "waits is asked without await: use def"),
        (nobody, "cannot be called with a user (too many positional arguments)"),
        (lambda user, tenant: {}, "cannot be called with a user (missing a required argument: 'tenant')"),
    ],
)
def test_a_check_names_a_setting_that_gives_no_rights(bob: User, use: Use, given: Any, says: str) -> None:
    """So that not the first user does; who gets no token, and never one without his rights."""
    use(given)
    found = [(message.id, says in message.msg) for message in checks.check_permissions()]
    assert found == ([("entitlement.E009", True)] if says else [])
    if says:
        with pytest.raises(PermissionsError):
            tokens.mint(bob)
    else:
        tokens.mint(bob)


def test_a_module_that_cannot_be_imported_is_named(use: Use, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_rights.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    use("broken_rights.permissions")
    [message] = checks.check_permissions()
    assert "broken_rights.permissions cannot be imported (ZeroDivisionError: division by zero)" in message.msg


def test_every_way_to_a_token_refuses(bob: User, use: Use) -> None:
    """In its own words; clients are told to come again, and not what is wrong."""
    use(Rights(KeyError("secret")))
    client = Client()
    client.force_login(bob)
    answer = client.post("/realtime/token/")
    assert (answer.status_code, "come" in answer.content.decode(), b"secret" in answer.content) == (503, False, False)
    assert "the site's log says why" in answer.json()["detail"]
    answer = client.get("/snapshot", {"subject": "/a/b"})
    assert (answer.status_code, b"secret" in answer.content) == (503, False)
    with pytest.raises(CommandError, match="KeyError"):
        call_command("realtime_token", "bob")
    with pytest.raises(PermissionsError):
        current.begin().client(bob)
    explanation = explain(person(bob), "/a/b", "subscribe")
    assert not explanation.verdict.allowed
    assert "there is no token for bob" in explanation.verdict.reason
    assert "there is no token for bob" in explanation.sidecar.error


def test_the_memory_backend_and_its_renewal(bob: User, use: Use) -> None:
    """A client of a test has what the function says when it comes; the rules are asked first."""
    rights = use(Rights({"subscribe": ["/o/1"]}))
    client = current.begin().client(bob).subscribe("/o/1", "/o/2")
    current.current().publish([["/o/1", "one", {}, {}], ["/o/2", "two", {}, {}]])
    assert [message.content for message in client.take()] == ["one"]
    Rule.objects.create(everyone=True, pattern="/**", effect="deny")
    current.current().publish([["/o/1", "hidden", {}, {}]])
    assert client.take() == []
    Rule.objects.all().delete()
    rights.answer = {"subscribe": ["/o/2"]}
    client.disconnect()
    client.connect()
    current.current().publish([["/o/1", "gone", {}, {}], ["/o/2", "there", {}, {}]])
    assert [message.content for message in client.take()][-1:] == ["there"]
    assert "gone" not in [message.content for message in client.messages]


def test_an_explanation_names_what_the_code_permits(bob: User, use: Use) -> None:
    """In a sentence; a rule that denies is named in its place."""
    use(Rights({"subscribe": ["/o/*"], "publish": ["/p/{user_id}"]}))
    verdict = explain(person(bob), "/o/1", "subscribe", ask=False)
    assert verdict.sentence() == (
        "bob may subscribe /o/1: no rule in force is about it, and the project's code permits /o/*."
    )
    assert explain(person(bob), f"/p/{bob.pk}", "publish", ask=False).verdict.allowed
    assert not explain(person(bob), "/o/1", "publish", ask=False).verdict.allowed
    Rule.objects.create(everyone=True, pattern="/**", effect="deny")
    assert "rule" in explain(person(bob), "/o/1", "subscribe", ask=False).verdict.reason
    assert not explain(person(None), "/o/1", "subscribe", ask=False).verdict.allowed


def test_rights_are_refreshed_by_a_note_of_the_user(bob: User, news: Callable[[], set[tuple[str, str]]]) -> None:
    """As after a new password: tokens of before count no more, here either, and those of later do."""
    before = tokens.mint(bob)[0]
    refresh_rights(bob)
    assert news() == {("password", str(bob.pk))}
    with pytest.raises(tokens.TokenRefused):
        tokens.bearer(before)
    assert tokens.bearer(tokens.mint(bob)[0]) == bob
    [record] = compiler.user_records({str(bob.pk): Change.objects.latest("id").generation})
    assert record["since"] == compiler.position().generation
    assert realtime.refresh_rights is refresh_rights


def test_the_note_is_written_as_the_database_writes_keys(monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    """A trigger and this one are to name a user alike, whose key may be no number."""
    key = uuid.UUID("12345678123456781234567812345678")
    user = types.SimpleNamespace(pk=key)
    field = types.SimpleNamespace(get_db_prep_value=lambda value, connection: value.hex)
    model = types.SimpleNamespace(_meta=types.SimpleNamespace(pk=field))
    monkeypatch.setattr("entitlement.permissions.refresh.get_user_model", lambda: model)
    refresh_rights(user)  # type: ignore[arg-type]
    assert Change.objects.latest("id").key == key.hex


@pytest.fixture
def node(settings: Any) -> Iterator[Sidecar]:
    """A sidecar that follows this project's rules and checks its passwords."""
    stop = threading.Event()
    with (
        Sidecar(mode="rules", token_secret=conf.token_secret(), listen=LISTEN) as sidecar,
        RunningAgent(sidecar.control),
    ):
        settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
        PasswordChecks(stop).start([sidecar.control])
        try:
            yield sidecar
        finally:
            stop.set()


def in_force(control: Control) -> None:
    """Wait until the rights of now are the sidecar's."""
    settle()
    until(lambda: control.hello().get("generation") == compiler.position().generation)


@pytest.mark.django_db(transaction=True)
def test_from_the_function_to_the_socket(node: Sidecar, bob: User, use: Use) -> None:
    """Who is permitted reads, nobody else; a new token without it, a rule that denies and a refresh end it at once."""
    ann = User.objects.create_user("ann")
    grants = {"bob": ["/orders/42"]}
    use(lambda user: {"subscribe": grants.get(user.get_username(), ())})
    with Control(node.control) as control:
        in_force(control)
        with (
            Viewer(node.client_url, tokens.mint(bob)[0]) as his,
            Viewer(node.client_url, tokens.mint(ann)[0]) as hers,
        ):
            assert (his.subscribe("/orders/42"), hers.subscribe("/orders/42")) == ("", "denied")
            control.publish([["/orders/42", "one"]])
            his.told(lambda frame: "one" in str(frame))

            rule = Rule.objects.create(everyone=True, pattern="/orders/**", effect="deny")
            assert his.revoked("/orders/42") == f"rule {rule.pk} denies it"
            rule.delete()
            his.started("/orders/42")

            answer = control.check("/orders/42", "subscribe", tokens.mint(bob)[0])
            assert answer["allowed"]
            grants["bob"] = []
            his.ask("token", token=tokens.mint(bob)[0])
            assert his.revoked("/orders/42") == "no rule allows it"
            control.publish([["/orders/42", "two"]])
            control.publish([["/user/bob/end", "three"]])
            assert his.subscribe("/user/bob/end") == ""
            his.told(lambda frame: "three" in str(frame))
            with pytest.raises(AssertionError):
                his.told(lambda frame: "two" in str(frame), 0)

            refresh_rights(bob)
            assert his.closed() == 4007
            assert hers.subscribe("/user/ann/x") == "", "nobody else is concerned"


@pytest.mark.django_db(transaction=True)
def test_by_events_and_through_the_web_port(node: Sidecar, bob: User, use: Use) -> None:
    """Streams and relayed sockets read what the code gives; a rule that denies stops them, and a refresh ends them."""
    rights = use(Rights({"subscribe": ["/orders/42"]}))
    with Control(node.control) as control, WebServer(node.settings["listen"]) as web:
        in_force(control)
        token = tokens.mint(bob)[0]
        with ExitStack() as stack:
            streams = [
                stack.enter_context(EventReader(where, "/orders/42", "/orders/43", token=token))
                for where in (node.client_url, web.url)
            ]
            relayed = stack.enter_context(Viewer(web.url, token))
            assert (relayed.subscribe("/orders/42"), relayed.subscribe("/orders/43")) == ("", "denied")
            for stream in streams:
                begun = {(event := stream.next()).name: event.content for _ in range(2)}
                assert (begun["subscribed"]["subject"], begun["denied"]["subject"]) == ("/orders/42", "/orders/43")
            control.publish([["/orders/42", "one"], ["/orders/43", "hidden"]])
            relayed.told(lambda frame: "one" in str(frame))

            rule = Rule.objects.create(everyone=True, pattern="/orders/**", effect="deny")
            assert relayed.revoked("/orders/42") == f"rule {rule.pk} denies it"
            for stream in streams:
                assert stream.texts(1) == ["one"]
                assert stream.named("revoked").content["subjects"] == ["/orders/42"]
            rule.delete()
            relayed.started("/orders/42")
            control.publish([["/orders/42", "two"]])
            for stream in streams:
                while stream.texts(1) != ["two"]:  # what it had already may come once more, as the snapshot
                    pass

            rights.answer = {"subscribe": ["/orders/43"]}
            refresh_rights(bob)
            assert relayed.closed() == 4007
            for stream in streams:
                while (event := stream.next()).name != "close":
                    assert "hidden" not in str(event)
                assert event.content["code"] == 4007
        with EventReader(web.url, "/orders/42", "/orders/43", token=tokens.mint(bob)[0]) as stream:
            begun = {(event := stream.next()).name: event.content for _ in range(2)}
            assert (begun["subscribed"]["subject"], begun["denied"]["subject"]) == ("/orders/43", "/orders/42")
            assert stream.texts(1) == ["hidden"]


@pytest.mark.django_db(transaction=True)
def test_by_mqtt_with_a_password_and_with_a_token(node: Sidecar, bob: User, use: Use) -> None:
    """The token that a password is exchanged for has the rights as well; a refresh sends both away."""
    rights = use(Rights({"subscribe": ["/orders/42"]}))
    with Control(node.control) as control:
        in_force(control)
    with (
        mqtt(node, "a", user="bob", password=b"demo") as one,
        mqtt(node, "b", password=tokens.mint(bob)[0].encode()) as other,
    ):
        for peer in (one, other):
            assert peer.subscribe("/orders/42", "/orders/43") == [1, 0x80]
        rights.answer = {"subscribe": ["/orders/43"]}
        refresh_rights(bob)
        for peer in (one, other):
            assert [each for each in peer.ended() if isinstance(each, Disconnect)]
    with mqtt(node, "a", user="bob", password=b"demo") as one:
        assert one.subscribe("/orders/42", "/orders/43") == [0x80, 1]
