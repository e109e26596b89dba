"""Who may see the statistics and the monitoring pages: sessions, passwords and tokens of users with the permission."""

from __future__ import annotations

import hmac
import secrets
import time
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.utils.decorators import method_decorator
from rest_framework import HTTP_HEADER_ENCODING
from rest_framework.authentication import (
    BaseAuthentication,
    BasicAuthentication,
    SessionAuthentication,
    get_authorization_header,
)
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from entitlement.sessions import leaves_session
from entitlement.tokens import TokenRefused, bearer
from realtime.rest import OwnView

VIEW = "realtime.view_monitoring"
"""The permission to see the monitoring pages and to read the statistics."""

OPERATE = "realtime.operate_monitoring"
"""The permission to disconnect and trace clients, and to publish test messages."""

_CHALLENGE = 'Basic realm="monitoring", charset="UTF-8"'

PROVED_SECONDS = 60.0
PROVED_MAX = 64
_proved: dict[bytes, tuple[float, Any, str]] = {}
"""Passwords that were right: when, whose, and what the database kept of it (all by a digest that says nothing)."""

_DIGEST_KEY = secrets.token_bytes(32)


def may_view(user: Any) -> bool:
    """Return True if this user may see the monitoring pages and read the statistics."""
    return bool(user.is_active and user.has_perm(VIEW))


def may_operate(user: Any) -> bool:
    """Return True if this user may act on them; who may not see them may not act either."""
    return may_view(user) and bool(user.has_perm(OPERATE))


class BearerAuthentication(BaseAuthentication):
    """``Authorization: Bearer TOKEN``: a realtime token of a user (docs/develop/entitlement.md)."""

    def authenticate(self, request: Request) -> tuple[AbstractBaseUser, str] | None:
        """Return the token's user as the database knows it now; raise AuthenticationFailed."""
        kind, _, token = get_authorization_header(request).decode(HTTP_HEADER_ENCODING).partition(" ")
        if kind.lower() != "bearer":
            return None
        try:
            return bearer(token.strip()), token
        except TokenRefused as error:
            raise AuthenticationFailed(str(error)) from None

    def authenticate_header(self, request: Request) -> str:
        """Return what a client that gave nothing should give.

        Scripts of a page are told of tokens alone: at the word Basic the browser would ask the user for a password.
        """
        return "Bearer" if request.headers.get("Sec-Fetch-Dest") == "empty" else f"Bearer, {_CHALLENGE}"


class PasswordAuthentication(BasicAuthentication):
    """``Authorization: Basic …`` of a user of Django.

    Checking a password is made to be slow, and who reads figures asks each second: one that was right counts for a
    minute, as long as the database keeps the same of it and the user is active.
    """

    def authenticate_credentials(
        self, userid: str, password: str, request: Any = None
    ) -> tuple[AbstractBaseUser, None]:
        """Return the user with this name and password; raise AuthenticationFailed."""
        digest = hmac.digest(_DIGEST_KEY, f"{userid}\0{password}".encode(), "sha256")
        now = time.monotonic()
        known = _proved.get(digest)
        if known is not None and now - known[0] < PROVED_SECONDS:
            user = type(known[1])._default_manager.filter(pk=known[1].pk, is_active=True).first()
            if user is not None and user.password == known[2] and user.get_username() == userid:
                return user, None
        user, _ = super().authenticate_credentials(userid, password, request)
        if len(_proved) >= PROVED_MAX:
            _proved.clear()
        _proved[digest] = (now, user, user.password)
        return user, None


class MayView(BasePermission):
    """Users with ``realtime.view_monitoring``."""

    message = "You need the permission realtime.view_monitoring: an administrator gives it."

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return True if the user of the request may see it."""
        del view
        return bool(request.user and request.user.is_authenticated and may_view(request.user))


@method_decorator(leaves_session, name="dispatch")
class MonitoringView(OwnView):
    """A view for users who may see the monitoring: 401 for those not signed in, 403 without the permission."""

    authentication_classes = [BearerAuthentication, PasswordAuthentication, SessionAuthentication]
    permission_classes = [MayView]
