"""The HTTP endpoints that Django answers itself: tokens for signed-in users, the servers to choose from."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.decorators import login_not_required
from django.contrib.sessions.backends.base import SessionBase
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, JsonResponse
from django.utils.decorators import method_decorator
from django.utils.module_loading import import_string
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import require_safe
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from entitlement import conf as entitlement_conf
from entitlement.permissions.asking import PermissionsError
from entitlement.sessions import leaves_session
from entitlement.tokens import MintError, mint
from realtime.conf import conf
from realtime.nodes import nodes
from realtime.rest import OwnView

UNKNOWN_RIGHTS = "Your rights cannot be found out: the site's log says why; retry."


@method_decorator([leaves_session, never_cache], name="dispatch")
class TokenView(OwnView):
    """POST /realtime/token/: a token for whom the session's cookie, or what the project's API takes, names.

    One that the session's cookie brought ends with the session. Another lives ``TOKEN_SECONDS``, and never longer than
    what it was given for, if that says when it ends (``exp``, RFC 7519 §4.1.4).
    """

    permission_classes = [AllowAny]

    def get_authenticators(self) -> list[BaseAuthentication]:
        """Read when asked for, so that overridden settings count."""
        return [one() for one in token_authenticators()]

    def post(self, request: Request) -> Response:
        """Answer ``token``, ``expires`` (ms) and ``user``; 401 when nobody is signed in, 503 when the rights are not
        known."""
        if request.user is None or not request.user.is_authenticated:  # None: UNAUTHENTICATED_USER of the project
            return self._refusal(request, "sign in first")
        session = _session_of(request)
        try:
            seconds = None if session is not None else _seconds_left(request.auth)
            token, expires = mint(request.user, session, seconds, request=request._request)
        except MintError as error:
            return self._refusal(request, str(error))
        except PermissionsError:  # which has been logged; what it says is not for everybody
            return Response({"detail": UNKNOWN_RIGHTS}, status=503)
        return Response({"token": token, "expires": expires, "user": request.user.get_username()})

    def _refusal(self, request: Request, detail: str) -> Response:
        challenge = self.get_authenticate_header(request) or "Bearer"
        return Response({"detail": detail}, status=401, headers={"WWW-Authenticate": challenge})


def token_authenticators() -> list[type[BaseAuthentication]]:
    """Return the classes that are believed to say who asks for a token; raise ImproperlyConfigured.

    ``REALTIME["TOKEN_AUTHENTICATORS"]`` names them. Unset: those that the project has named for its API, and the
    session's cookie. Those that the framework has where a project names none are not taken: they try passwords, as
    often as somebody sends one.
    """
    paths = conf.token_authenticators
    if paths is not None:
        return [_authenticator(path) for path in paths]
    named = getattr(settings, "REST_FRAMEWORK", None) or {}
    found = [_authenticator(path) for path in named.get("DEFAULT_AUTHENTICATION_CLASSES", ())]
    has_session = any(issubclass(one, SessionAuthentication) for one in found)
    return found if has_session else [*found, SessionAuthentication]


def _authenticator(path: Any) -> type[BaseAuthentication]:
    """Return the class of this path; raise ImproperlyConfigured."""
    try:
        found = import_string(path) if isinstance(path, str) else path
    except ImportError as error:
        raise ImproperlyConfigured(f"POST /realtime/token/ has no such authenticator: {error}.") from None
    if not isinstance(found, type) or not issubclass(found, BaseAuthentication):
        raise ImproperlyConfigured(f"POST /realtime/token/: {path!r} is no authenticator of the REST framework.")
    return found


def _session_of(request: Request) -> SessionBase | None:
    """Return the session of the user who asks; None when something else than the session's cookie named the user."""
    django_request = request._request
    session: SessionBase | None = getattr(django_request, "session", None)
    if session is None or isinstance(request.successful_authenticator, SessionAuthentication):
        return session  # also where a middleware has put somebody else into the request, whom the session stands for
    # Asked anew: the framework has put the user that an authenticator found into Django's request as well.
    return session if get_user(django_request).pk == request.user.pk else None


def _seconds_left(credential: Any) -> int | None:
    """Return how long a token may live that is given for this one of somebody else's; None: what is usual."""
    try:
        left = int(float(credential["exp"]) - time.time())
    except (TypeError, KeyError, ValueError, OverflowError):
        return None
    return min(left, entitlement_conf.token_seconds())


@login_not_required
@require_safe
@leaves_session
@cache_control(public=True, max_age=1)
def servers(request: HttpRequest) -> JsonResponse:
    """Answer GET /api/servers/: where clients may connect now, with weights; for anybody."""
    return JsonResponse({"servers": server_list(request)})


def server_list(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the servers as a page that this request asks for should see them."""
    return [{"url": server.url, "weight": server.weight} for server in nodes.servers(request)]
