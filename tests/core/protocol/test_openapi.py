"""The document is one of OpenAPI 3.1, and what it says of values is what is checked."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from fastpath.core.protocol.codec import JSON
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.openapi import openapi, openapi_json
from fastpath.core.protocol.rest import SUBJECT_SCHEMA, read_publications
from fastpath.core.protocol.subject import check_subject

SUBJECTS = [
    "/a/b",
    "/a/*b",
    "/a/**b",
    "/a/b*",
    "/é/€",
    "/" + "/".join("abcdefgh" * 4),
    "/a/" + "b" * 509,
    "",
    "/",
    "/a",
    "a/b",
    "/a/",
    "//b",
    "/a/*",
    "/**/a",
    "/a/\x00",
    "/" + "/".join("a" * 33),
    "/a/" + "b" * 510,
]

MESSAGES: list[Any] = [
    {"subject": "/a/b", "content": "x"},
    {"subject": "/a/b", "content": {"b": "AA=="}, "fields": {"f": {"b": ""}}, "as_of": {"batch": 1}},
    {"subject": "/a/b", "content": "", "fields": None, "as_of": 5, "qos": "standard", "retained": False},
    {"subject": "/a/b", "content": {"b": "AB=="}, "closure": None, "reply_to": ""},
    {"subject": "/a/b"},
    {"subject": "/a/b", "removed": True},
    {"subject": "/a/b", "removed": True, "content": "", "fields": {"why": "sold"}, "retained": True, "replace": True},
    {"subject": "/a/b", "removed": True, "content": {"b": ""}, "closure": "c", "as_of": {"version": 7}},
    {"subject": "/a/b", "removed": True, "content": "x"},
    {"subject": "/a/b", "removed": True, "retained": False},
    {"subject": "/a/b", "removed": False},
    {"subject": "/a/b", "removed": False, "content": "x"},
    {"subject": "/a/b", "removed": 1},
    {"subject": "/a/b", "content": 5},
    {"subject": "/a/b", "content": {"b": "A="}},
    {"subject": "/a/b", "content": "", "fields": {"": "x"}},
    {"subject": "/a/b", "content": "", "as_of": True},
    {"subject": "/a/b", "content": "", "as_of": {"other": 1}},
    {"subject": "/a/b", "content": "", "qos": "best"},
    {"subject": "/a/b", "content": "", "more": 1},
    {"subject": "/a/b", "content": "", "closure": "x" * 257},
]


def test_it_is_valid_and_all_of_it_resolves() -> None:
    document = json.loads(openapi_json())
    validate(document)
    assert document == json.loads(msgspec.json.encode(openapi()))


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject[:12])
def test_subjects(subject: str) -> None:
    try:
        check_subject(subject)
        good = True
    except InvalidSubject:
        good = False
    said = re.search(SUBJECT_SCHEMA["pattern"], subject) is not None and len(subject) <= SUBJECT_SCHEMA["maxLength"]
    assert said is good


@pytest.mark.parametrize("message", MESSAGES, ids=str)
def test_publications(message: dict[str, Any]) -> None:
    document = openapi()
    schema = {"$ref": "#/components/schemas/Publication", "components": document["components"]}
    _, refused = read_publications(json.dumps(message).encode(), JSON)
    assert Draft202012Validator(schema).is_valid(message) is not bool(refused)


def test_the_examples_are_what_they_are_examples_of() -> None:
    document = openapi()
    for operations in document["paths"].values():
        for operation in operations.values():
            answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            for part in (answer, body):
                examples = [part["example"]] if "example" in part else []
                examples += [example["value"] for example in part.get("examples", {}).values()]
                schema = part.get("schema", {}) | {"components": document["components"]}
                for example in examples:
                    Draft202012Validator(schema).validate(example)
