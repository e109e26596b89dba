"""Answers as values: a status, a body in the form that was asked for, headers; errors are problems (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from time import gmtime, strftime
from typing import Any, NamedTuple

from ...core.auth.reasons import PENDING
from ...core.protocol.codec import JSON, Form
from ...core.protocol.errors import Close, FastpathError, InvalidMessage, Refused
from ...core.protocol.rest import JSON_TYPE, MSGPACK_TYPE, encode_body, problem
from ...core.websocket.handshake import BadRequest, Headers

PROBLEM_TYPE = "application/problem+json"

RETRY_SECONDS = 1
"""Seconds after which a caller may ask again what could not be answered yet."""

_LATER = (Close.OVERLOADED, Close.NOT_READY, Close.DRAIN, Close.GOING_AWAY)

_BY_CODE = {"denied": 403, "not_ready": 503, "unavailable": 503, "bad_token": 401, "none": 404, "failed": 503}


class HttpAnswer(NamedTuple):
    """An answer; with ``ends`` the connection ends behind it."""

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: Headers = ()
    ends: bool = False


def answer_of(value: Any, form: Form, status: int = 200) -> HttpAnswer:
    """Return an answer with a body in this form."""
    return HttpAnswer(status, encode_body(value, form), JSON_TYPE if form == JSON else MSGPACK_TYPE)


def head_of(status: int, content_type: str) -> HttpAnswer:
    """Return the answer to a HEAD where a GET would bring nobody knows how much: no length is told (RFC 9110 8.6)."""
    return HttpAnswer(status, headers=(("Content-Type", content_type),))


def refusal(status: int, detail: str, headers: Headers = (), *, ends: bool = False, code: str = "") -> HttpAnswer:
    """Return an error; ``detail`` says what is wrong, or what to do, and ``code`` the same to a program."""
    body = encode_body(problem(status, phrase(status), detail) | ({"code": code} if code else {}), JSON)
    if status == 503:
        headers = (*headers, ("Retry-After", str(RETRY_SECONDS)))
    elif status == 401:
        headers = (*headers, ("WWW-Authenticate", "Bearer"))
    return HttpAnswer(status, body, PROBLEM_TYPE, headers, ends)


def refused_by(error: FastpathError) -> HttpAnswer:
    """Return the answer to a request that raised this."""
    match error:
        case BadRequest():
            return refusal(error.status, error.reason, error.headers, ends=True)
        case Refused():
            return refusal(503 if error.code in _LATER else 401, error.reason)
        case InvalidMessage():
            pending = error.reason in PENDING
            return refusal(503 if pending else _BY_CODE.get(error.code, 400), error.reason)
    return refusal(400, str(error))


def phrase(status: int) -> str:
    """Return the words of a status."""
    return HTTPStatus(status).phrase


def standing_headers(answer: HttpAnswer) -> list[tuple[str, str]]:
    """Return the headers that an answer has by its kind."""
    headers = [
        ("Date", strftime("%a, %d %b %Y %H:%M:%S GMT", gmtime())),
        ("Cache-Control", "no-store"),
        *answer.headers,
    ]
    if answer.content_type:
        headers += [
            ("Content-Type", answer.content_type),
            ("X-Content-Type-Options", "nosniff"),
            ("Content-Length", str(len(answer.body))),
        ]
    return headers
