"""The HTTP endpoints: the snapshot of a subject, tokens for signed-in users, the servers to choose from."""

from __future__ import annotations

import base64
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, JsonResponse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import require_safe
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from entitlement.tokens import MintError, mint
from fastpath.client.errors import ClientError, ControlRefused
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import check_subject
from realtime.nodes import nodes
from realtime.nodes.control_sockets import asking

_SNAPSHOT_TOKEN_SECONDS = 60
"""A signed-in user's token for one snapshot lives as long as a slow request."""

_RETRY_SECONDS = 1

_STATUSES = {"none": 404, "denied": 403, "not_ready": 503, "invalid": 400, "bad_token": 401}
"""What the sidecar says (protocol.md 8.1) as HTTP says it."""


class _Endpoint(APIView):
    authentication_classes = [SessionAuthentication]
    permission_classes = [AllowAny]


@method_decorator(never_cache, name="dispatch")
class SnapshotView(_Endpoint):
    """GET /snapshot?subject=…[&token=…]: the merged snapshot of a subject.

    The right is that of the token (``?token=`` or ``Authorization: Bearer``), else of the signed-in user, else that of
    anonymous visitors.
    """

    def get(self, request: Request) -> Response:
        """200 with the snapshot, or the status that says why not, with a ``detail``."""
        subject = request.query_params.get("subject")
        if subject is None:
            return _refusal(400, "no subject: ask for /snapshot?subject=/stocks/us/IBM")
        try:
            check_subject(subject)
            with asking() as control:
                answer = control.snapshot(subject, _token(request))
        except InvalidSubject as error:
            return _refusal(400, error.reason)
        except ControlRefused as error:
            return _refusal(400, error.reason)
        except ClientError as error:
            return _refusal(503, str(error))
        if answer["status"] == "found":
            return Response(_snapshot(answer["message"]))
        reason = answer.get("reason") or f"there is no snapshot of {subject}"
        return _refusal(_STATUSES.get(answer["status"], 500), reason)


@method_decorator(never_cache, name="dispatch")
class TokenView(_Endpoint):
    """POST /realtime/token/: a token for the signed-in user, which ends with the session."""

    def post(self, request: Request) -> Response:
        """``token``, ``expires`` (ms) and ``user``; 401 when nobody is signed in."""
        if not request.user.is_authenticated:
            return _refusal(401, "sign in first")
        try:
            token, expires = mint(request.user, request.session)
        except MintError as error:
            return _refusal(401, str(error))
        return Response({"token": token, "expires": expires, "user": request.user.get_username()})


@login_not_required
@require_safe
@cache_control(public=True, max_age=1)
def servers(request: HttpRequest) -> JsonResponse:
    """GET /api/servers/: where clients may connect now, with weights; for anybody."""
    return JsonResponse({"servers": server_list(request)})


def server_list(request: HttpRequest) -> list[dict[str, Any]]:
    """The servers as a page that this request asks for should see them."""
    return [{"url": server.url, "weight": server.weight} for server in nodes.servers(request)]


def _token(request: Request) -> str | None:
    """The token of the request, one minted for its session, or None for anonymous."""
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if given := request.query_params.get("token"):
        return given
    if not request.user.is_authenticated:
        return None
    try:
        return mint(request.user, request.session, _SNAPSHOT_TOKEN_SECONDS)[0]
    except MintError:
        return None


def _snapshot(message: dict[str, Any]) -> dict[str, Any]:
    fields = {name: _value(value) for name, value in (message.get("fields") or {}).items()}
    return {
        "subject": message["subject"],
        "content": _value(message["content"]),
        "fields": fields,
        "epoch": message["epoch"],
        "seq": message["seq"],
        "time": message["time"],
        "kind": "snapshot",
    }


def _value(value: str | bytes) -> str | dict[str, str]:
    """As in the JSON form of the wire protocol (protocol.md 1.4)."""
    return value if isinstance(value, str) else {"b": base64.b64encode(value).decode()}


def _refusal(status: int, detail: str) -> Response:
    headers = {503: {"Retry-After": str(_RETRY_SECONDS)}, 401: {"WWW-Authenticate": "Bearer"}}.get(status)
    return Response({"detail": detail}, status=status, headers=headers)
