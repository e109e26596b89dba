"""Policies for a whole project, of each kind that the REST framework has."""

from __future__ import annotations

from typing import Any, NoReturn

from rest_framework.exceptions import NotFound
from rest_framework.metadata import BaseMetadata
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.versioning import BaseVersioning


class Renamed(JSONRenderer):
    """Names of its own, as those who like their camels have."""

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        """All names are the same."""
        named = {"renamed": str(data)} if data is not None else None
        rendered: bytes = super().render(named, *args, **kwargs)
        return rendered


class Unreadable(BaseParser):
    """Reads nothing."""

    media_type = "application/unheard-of"


class Nobody(BasePermission):
    """Lets nobody in."""

    def has_permission(self, *_: Any) -> bool:
        """No."""
        return False


class Never(BaseThrottle):
    """Has always had enough."""

    def allow_request(self, *_: Any) -> bool:
        """No."""
        return False

    def wait(self) -> float:
        """A day."""
        return 86400.0


class LastOne(BaseContentNegotiation):
    """Whatever is asked for, it is the last."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        """The last."""
        return parsers[-1]

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        """The last."""
        return renderers[-1], "application/chosen"


class Unversioned(BaseVersioning):
    """Knows no version."""

    def determine_version(self, *_: Any, **__: Any) -> NoReturn:
        """None of all."""
        raise NotFound("no such version")


class Silent(BaseMetadata):
    """Says nothing."""

    def determine_metadata(self, *_: Any) -> dict[str, str]:
        """A word that ours would not say."""
        return {"metadata": "of the project"}


def wrapped(error: Exception, _: Any) -> Response:
    """Every error is a success with a word in it."""
    return Response({"ok": False, "error": str(error)}, status=200)


def named(*_: Any, **__: Any) -> str:
    """A name, or a description, for whatever view."""
    return "named by the project"
