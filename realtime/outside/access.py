"""Who may read the statistics on their own address: who knows its password."""

from __future__ import annotations

import hmac
from typing import Any

from django.contrib.auth.models import AnonymousUser
from rest_framework.authentication import BaseAuthentication, BasicAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from realtime.conf import conf

_WRONG = 'The password is not that of REALTIME["STATS_PASSWORD"].'


class AddressPassword(BasicAuthentication):
    """``Authorization: Basic`` with any user name, or ``Bearer``, and the address's password."""

    www_authenticate_realm = "statistics"

    def authenticate(self, request: Request) -> tuple[AnonymousUser, str] | None:
        """Check the password; raise AuthenticationFailed. Return None where no password was given."""
        if not conf.stats_password:
            return AnonymousUser(), ""
        kind, _, given = get_authorization_header(request).partition(b" ")
        if kind.lower() == b"bearer":
            return self._compared(given.strip())
        return super().authenticate(request)

    def authenticate_credentials(self, userid: str, password: str, request: Any = None) -> tuple[AnonymousUser, str]:
        """Check the password, whatever the user name; raise AuthenticationFailed."""
        del userid, request
        return self._compared(password.encode())

    def _compared(self, given: bytes) -> tuple[AnonymousUser, str]:
        if not hmac.compare_digest(given, conf.stats_password.encode()):
            raise AuthenticationFailed(_WRONG)
        return AnonymousUser(), ""


class Knows(BasePermission):
    """The permission of whoever has given the password, where there is one."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return True if the request may be answered."""
        del view
        return request.successful_authenticator is not None


OWN: dict[str, list[type[BaseAuthentication] | type[BasePermission]]] = {
    "authentication_classes": [AddressPassword],
    "permission_classes": [Knows],
}
"""Arguments that make of a view for users one for this address (``View.as_view(**OWN)``)."""
