"""The Django view that forwards what is answered soon: under WSGI, and for a session's snapshot.

Streams need the ASGI application (forwarding/application.py); here they are 501.
"""

from __future__ import annotations

import http.client
import logging
import ssl

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from entitlement.permissions.asking import PermissionsError
from entitlement.sessions import leaves_session
from entitlement.tokens import MintError, mint
from realtime.conf import conf
from realtime.forwarding.heads import (
    AWAY,
    BROKEN,
    LATE,
    SHORT,
    SNAPSHOT,
    Header,
    Problem,
    Target,
    answered,
    has_token,
    target_of,
    told,
)

SECONDS_MAX = 10.0
"""Seconds that the sidecar may take: a thread of the web server waits for it."""

SNAPSHOT_TOKEN_SECONDS = 60
"""A signed-in user's token for one snapshot lives as long as a slow request."""

_OPTIONAL = frozenset({"Content-Length", "Content-Type"})
"""PEP 3333: that these are empty, as under uWSGI, means that there is none."""

_STREAMS = Problem(501, "A stream needs the ASGI application of the site; this process forwards short requests alone.")
_WAITS = Problem(501, "wait needs the ASGI application of the site; ask again without it.")
_UNKNOWN_RIGHTS = Problem(503, "Your rights cannot be found out: the site's log says why; retry.")
_TOO_LARGE = Problem(413, "The body is larger than the web server reads (DATA_UPLOAD_MAX_MEMORY_SIZE).")

_log = logging.getLogger(__name__)


@csrf_exempt  # cookies count for nothing but a snapshot, which changes nothing
@login_not_required
@leaves_session
@never_cache
def forward(request: HttpRequest, path: str) -> HttpResponse:
    """Answer a request for ``path`` as the sidecar does, wherever the URLconf has it, or with a problem of our own."""
    path = f"/{path}"
    if path not in SHORT:
        return _answer(_STREAMS)
    if request.GET.get("wait", "0") != "0":
        return _answer(_WAITS)
    target = Target.parse(conf.relay_url)
    if target is None:
        return _answer(AWAY)
    try:
        return _forwarded(request, path, target)
    except RequestDataTooBig:
        return _answer(_TOO_LARGE)
    except PermissionsError:  # which has been logged
        return _answer(_UNKNOWN_RIGHTS)
    except TimeoutError:
        return _answer(LATE)
    except ConnectionError as error:
        _log.warning("the sidecar's client port %s:%d does not answer: %s", target.host, target.port, error)
        return _answer(AWAY)
    except (OSError, http.client.HTTPException) as error:
        _log.warning("the sidecar's client port %s:%d broke off: %s", target.host, target.port, error)
        return _answer(BROKEN)
    except ValueError as error:
        return _answer(Problem(400, f"The request cannot be forwarded: {error}."))


def _forwarded(request: HttpRequest, path: str, target: Target) -> HttpResponse:
    headers = [
        ("Host", request.get_host()),
        *((name, text) for name, text in request.headers.items() if name != "Host" and (text or name not in _OPTIONAL)),
    ]
    rows = told(headers, request.META.get("REMOTE_ADDR", ""))
    if path == SNAPSHOT:
        rows += _session(request)
    secure = ssl.create_default_context() if target.is_secure else None
    connection = (
        http.client.HTTPSConnection(target.host, target.port, timeout=SECONDS_MAX, context=secure)
        if secure is not None
        else http.client.HTTPConnection(target.host, target.port, timeout=SECONDS_MAX)
    )
    try:
        place = target_of(target.prefix, path, request.META.get("QUERY_STRING", ""))
        connection.putrequest(request.method or "GET", place, skip_host=True, skip_accept_encoding=True)
        for name, value in rows:
            connection.putheader(name, value)
        connection.putheader("connection", "close")
        connection.endheaders(request.body or None)
        answer = connection.getresponse()
        response = HttpResponse(answer.read(), status=answer.status)
    finally:
        connection.close()
    del response["Content-Type"]
    for name, value in answered(answer.getheaders()):
        response[name] = value
    return response


def _session(request: HttpRequest) -> list[Header]:
    """Return a header with a token for the signed-in user, where the request brings none of its own."""
    by_name = {name.lower(): value for name, value in request.headers.items()}
    if has_token(by_name, request.META.get("QUERY_STRING", "")) or not request.user.is_authenticated:
        return []
    try:
        token, _ = mint(request.user, request.session, SNAPSHOT_TOKEN_SECONDS, request=request)
    except MintError:
        return []
    return [("authorization", f"Bearer {token}")]


def _answer(problem: Problem) -> HttpResponse:
    response = HttpResponse(problem.body, status=problem.status)
    for name, value in problem.headers:
        response[name] = value
    return response
