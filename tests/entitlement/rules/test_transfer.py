"""Rules as a file and back: nothing is lost, errors are told by row, all is taken or nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command

from entitlement.following import compiler
from entitlement.models import Rule, RuleChange
from entitlement.rules.files import COLUMNS, MARK, TransferError
from entitlement.rules.transfer import export, load
from tests.support.databases import settle
from tests.support.entitlement.truth import create

PAGE = "/admin/entitlement/rule/import/"


@pytest.fixture
def rules(bob: Any, desk: Group) -> list[Rule]:
    """One of each kind."""
    del bob, desk
    group = Group.objects.create(name="night")
    made = [
        create("user:bob allow both /a/b from -60 until +60"),
        create("group:night deny publish /a/**"),
        create("everyone allow subscribe /a/{username} off"),
        create("anonymous allow subscribe /märkte/日経"),
    ]
    Rule.objects.create(group=group, pattern="/n/*", note='=1+1, "quoted"\nand a line')
    Rule.objects.create(group=group, pattern="/n/**", note="'quoted")
    return [*made, *Rule.objects.filter(pattern__startswith="/n/")]


def _said() -> set[tuple[Any, ...]]:
    fields = ("user", "group", "everyone", "anonymous", "pattern", "action", "effect", "enabled")
    return set(Rule.objects.values_list(*fields, "valid_from", "valid_until", "note"))


@pytest.mark.parametrize("form", ["json", "csv"])
def test_there_and_back(rules: list[Rule], form: str) -> None:
    """A file that is taken by an empty table gives the same rules; taken again it changes nothing."""
    before = _said()
    text = "".join(export(Rule.objects.all(), form))
    assert load(text, form).summary() == "0 to add, 0 to change, 0 to delete, 6 as they are."
    Rule.objects.all().delete()
    assert load(text, form, dry=True).summary().startswith("6 to add,")
    assert not Rule.objects.exists()
    assert load(text, form).summary().startswith("6 to add,")
    assert _said() == before
    if form == "csv":
        assert "'=1+1" in text  # no formula for a spreadsheet


def test_notes_and_switches_change_and_others_go(rules: list[Rule]) -> None:
    """What says the same is kept, with its number; ``replace`` deletes what is not in the file."""
    kept = rules[1]
    row = {
        "who": "group:night",
        "pattern": "/a/**",
        "action": "publish",
        "effect": "deny",
        "note": "n",
        "enabled": "no",
    }
    plan = load(json.dumps([row]), "json", replace=True)
    assert plan.summary() == "0 to add, 1 to change, 5 to delete, 0 as they are."
    [left] = Rule.objects.all()
    assert (left.pk, left.note, left.enabled) == (kept.pk, "n", False)


ROWS = [
    ({"who": "user:bib", "pattern": "/a/b"}, "row 1, who: there is no user 'bib'"),
    (
        {"who": "group:", "pattern": "/a/b"},
        "row 1, who: 'group:' is none of user:NAME, group:NAME, everyone,",
    ),
    ({"pattern": "/a/b"}, "row 1, who: '' is none of"),
    ({"who": "everyone", "pattern": "/a/b*"}, "row 1, pattern: * must be a whole segment (character 4): "),
    ({"who": "everyone"}, "row 1, pattern: "),
    ({"who": "everyone", "pattern": "/a/b", "action": "look"}, "row 1, action: Value 'look' is not a valid choice."),
    ({"who": "everyone", "pattern": "/a/b", "effect": 7}, "row 1, effect: Value '7' is not a valid choice."),
    ({"who": "everyone", "pattern": "/a/b", "enabled": "maybe"}, "row 1, enabled: 'maybe' is neither yes nor no"),
    ({"who": "everyone", "pattern": "/a/b", "from": "soon"}, "row 1, from: 'soon' is no time like 2026-01-31T09:30"),
    (
        {"who": "everyone", "pattern": "/a/b", "from": "2026-01-02T00:00", "until": "2026-01-01T00:00"},
        "row 1, until: The rule would end before it begins",
    ),
    ({"who": "everyone", "pattern": "/a/b", "id": 7}, "row 1: unknown: id; there are who, pattern,"),
    ({"who": "everyone", "pattern": "/a/b", "note": "n" * 201}, "row 1, note: Ensure this value has at most 200"),
    ({"who": "everyone", "pattern": "/a/b", "note": "x\0y"}, "row 1, note: character 2 (U+0000) is none that a text"),
    ({"who": "everyone", "pattern": "/a/\ud800"}, "row 1, pattern: character 4 (U+D800) is none that a text may have"),
    ({"who": "group:\udfff", "pattern": "/a/b"}, "row 1, who: character 7 (U+DFFF) is none"),
    ({"who": "everyone", "pattern": "/a/b", "action": "\ud800"}, "row 1, action: character 1 (U+D800) is none"),
    ({"who": "everyone", "pattern": "/a/b", "\ud800": 1}, "row 1: character 1 (U+D800) is none"),
    ({"who": ["everyone"], "pattern": "/a/b"}, "row 1, who: a list or an object is no value"),
    (
        {"who": "everyone", "pattern": "/a/b", "from": "0001-01-01T00:00:00+14:00"},
        "row 1, from: '0001-01-01T00:00:00+14:00' is too early or too late",
    ),
    (
        {"who": "everyone", "pattern": "/a/b", "until": "9999-12-31T23:59:59-14:00"},
        "row 1, until: '9999-12-31T23:59:59-14:00' is too early or too late",
    ),
    ({"who": "everyone", "pattern": "/good/one"}, "row 2: it says the same as row 1"),
]


@pytest.mark.parametrize(("row", "text"), ROWS)
def test_errors_by_row(db: None, row: dict, text: str) -> None:
    """Each names row and column; nothing of the file is taken."""
    good = {"who": "everyone", "pattern": "/good/one"}
    plan = load(json.dumps([good, row] if text.startswith("row 2") else [row, good]), "json")
    assert str(plan.errors[0]).startswith(text)
    assert not Rule.objects.exists()


@pytest.mark.parametrize(("zone", "time"), [("America/New_York", "0001-01-01T00:00Z"), ("Asia/Tokyo", "0001-01-01")])
def test_a_time_must_have_a_date_in_the_sites_zone(db: None, settings: Any, zone: str, time: str) -> None:
    """The list of rules could not be shown."""
    settings.TIME_ZONE = zone
    plan = load(json.dumps([{"who": "everyone", "pattern": "/a/b", "from": time}]), "json")
    assert "is too early or too late" in str(plan.errors[0])


def test_the_page_shows_errors_of_hostile_rows(admin_client: Any) -> None:
    """Whatever is in them, it can be encoded."""
    rows = [{"who": "group:\ud800", "pattern": "/a/\ud800", "effect": "\ud800", "\ud800": "\ud800"}]
    answer = admin_client.post(PAGE, {"text": json.dumps(rows), "format": "json", "take": "x"})
    assert answer.status_code == 200
    assert "(U+D800) is none that a text may have" in answer.content.decode()


@pytest.mark.parametrize(
    ("text", "form", "why"),
    [
        ("{", "json", "This is no JSON"),
        ('{"a": 1}', "json", "A file of rules is a list of objects"),
        ("[1]", "json", "A file of rules is a list of objects"),
        ("[" * 100_000, "json", "This is no JSON"),
        ("a,b\n1,2\n", "csv", "The first line names the columns, of these: who, pattern"),
        ("", "csv", "The first line names the columns"),
        ('who,pattern\n"everyone', "csv", "This is no CSV"),
    ],
)
def test_what_is_no_file_of_rules(db: None, text: str, form: str, why: str) -> None:
    """Is said before any row is looked at."""
    with pytest.raises(TransferError, match=why):
        load(text, form)


def test_a_line_with_too_much_in_it(db: None) -> None:
    """Names the fault instead of dropping it."""
    plan = load("who,pattern\neveryone,/a/b,allow\n", "csv")
    assert "unknown: a column without a name" in str(plan.errors[0])


def test_one_step_for_the_sidecar(db: None) -> None:
    """All of a file is one transaction: one difference."""
    at = compiler.position()
    assert at is not None
    load(json.dumps([{"who": "everyone", "pattern": f"/a/{number}"} for number in range(300)]), "json")
    settle()
    now = compiler.position()
    assert now is not None
    assert len(compiler.difference(at.generation, now.generation).rules) == 300
    assert RuleChange.objects.count() == 300


def _run(*args: object, **options: object) -> str:
    out = io.StringIO()
    call_command(*args, stdout=out, stderr=out, **options)
    return out.getvalue()


def test_the_command(rules: list[Rule], tmp_path: Path) -> None:
    """Exports by the file's name, tries, imports as somebody, and lists what is wrong."""
    path = tmp_path / "rules.csv"
    assert _run("entitlement_rules", "export", str(path)) == f"6 rules are in {path}.\n"
    assert path.read_text(encoding="utf-8").startswith(MARK + ",".join(COLUMNS))
    assert len(json.loads(_run("entitlement_rules", "export"))) == 6
    Rule.objects.all().delete()
    RuleChange.objects.all().delete()
    assert _run("entitlement_rules", "import", str(path), "--dry-run").startswith("Would be done: 6 to add")
    assert not Rule.objects.exists()
    assert _run("entitlement_rules", "import", str(path), "--as", "bob").startswith("Done: 6 to add")
    change = RuleChange.objects.first()
    assert change is not None
    assert (change.user_name, change.means[:23]) == ("bob", "import of rules.csv by ")
    wrong = tmp_path / "rules.json"
    wrong.write_text('[{"who": "nobody", "pattern": "/a"}]', encoding="utf-8")
    with pytest.raises(CommandError, match="Nothing was changed"):
        _run("entitlement_rules", "import", str(wrong))
    with pytest.raises(CommandError, match=r"neither \.json nor \.csv"):
        _run("entitlement_rules", "export", str(tmp_path / "rules.txt"))
    with pytest.raises(CommandError, match="No such file"):
        _run("entitlement_rules", "import", str(tmp_path / "none.csv"))


def test_one_rule_by_a_command(rules: list[Rule]) -> None:
    """With who added it; what is wrong adds nothing."""
    told = _run("entitlement_rules", "allow", "everyone", "/scores/**", "--as", "bob")
    rule = Rule.objects.get(pattern="/scores/**")
    assert told == f"Added rule {rule.pk}: allow everyone to subscribe /scores/**.\n"
    assert RuleChange.objects.filter(rule=rule.pk, user_name="bob").exists()
    _run("entitlement_rules", "deny", "user:bob", "/scores/secret", "--action", "both")
    assert str(Rule.objects.get(pattern="/scores/secret")) == "deny user bob to both /scores/secret"
    count = Rule.objects.count()
    for words, fault in (
        (("allow", "everybody", "/a/b"), "is no holder"),
        (("allow", "everyone:x", "/a/b"), "is no holder"),
        (("allow", "user:nobody", "/a/b"), "nobody"),
        (("allow", "group:none", "/a/b"), "There is no group 'none'"),
        (("allow", "everyone", "no/pattern"), "pattern"),
        (("allow", "everyone"), "blank"),
        (("export", "-", "/a/b"), "takes one file"),
    ):
        with pytest.raises(CommandError, match=fault):
            _run("entitlement_rules", *words)
    assert Rule.objects.count() == count


def test_the_pages(rules: list[Rule], admin_client: Any) -> None:
    """Export the list that is looked at; try a file, put it right in place, import it."""
    answer = admin_client.get("/admin/entitlement/rule/export/csv/?who=group")
    text = b"".join(answer.streaming_content).decode()
    assert answer["Content-Disposition"] == 'attachment; filename="rules.csv"'
    assert text.count("group:night") == 3
    assert "everyone" not in text

    def post(button: str, **data: Any) -> str:
        page: str = admin_client.post(PAGE, data | {button: "x"}, follow=True).content.decode()
        return page

    wrong = SimpleUploadedFile("new.csv", b"who,pattern,note\neveryone,/new,tried\n")
    page = post("try", file=wrong)
    assert "line 2, pattern: Only one segment (character 5)" in page
    assert "everyone,/new,tried" in page
    page = post("take", text="who,pattern\neveryone,/new/**\n", format="csv", replace="on")
    assert "The file was taken: 1 to add, 0 to change, 6 to delete, 0 as they are." in page
    assert [rule.pattern for rule in Rule.objects.all()] == ["/new/**"]
    change = RuleChange.objects.first()
    assert change is not None
    assert (change.user_name, change.means) == ("admin", "import of text")
    assert "Choose a file, or put its text into the box." in post("try", text="")
    assert "no .json nor .csv" not in page
    assert "ends in neither .json nor .csv" in post("try", file=SimpleUploadedFile("a.txt", b"x"))
    assert "The file is no UTF-8: line 2 has" in post("try", file=SimpleUploadedFile("a.csv", b"who,pattern\n\xff\xfe"))
    assert "This is no JSON" in post("try", text="{", format="json")


def test_who_may(rules: list[Rule], client: Any, bob: Any) -> None:
    """Pages of rules ask for the rights of rules."""
    from django.contrib.auth.models import Permission

    bob.is_staff = True
    bob.save()
    client.force_login(bob)
    pages = ["import/", "export/csv/", "preview/", "explain/"]
    assert [client.get(f"/admin/entitlement/rule/{page}").status_code for page in pages] == [403] * 4
    bob.user_permissions.add(Permission.objects.get(codename="view_rule"))
    assert [client.get(f"/admin/entitlement/rule/{page}").status_code for page in pages] == [403, 200, 200, 200]
