"""What our views over the REST framework go by, whatever a project has chosen for its own API."""

from __future__ import annotations

from rest_framework.metadata import SimpleMetadata
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.settings import DEFAULTS, IMPORT_STRINGS, APISettings
from rest_framework.views import APIView

FRAMEWORK = APISettings(DEFAULTS, DEFAULTS, IMPORT_STRINGS)
"""The framework's settings as it brings them: REST_FRAMEWORK of the project is not read."""


class OwnJSON(JSONRenderer):
    """JSON as it is: names are field names and stay as they are, what is no number is no JSON."""

    ensure_ascii = not FRAMEWORK.UNICODE_JSON
    compact = FRAMEWORK.COMPACT_JSON
    strict = FRAMEWORK.STRICT_JSON


class OwnNegotiation(DefaultContentNegotiation):
    """The form by the header Accept, or by ``?format=``."""

    settings = FRAMEWORK


class OwnView(APIView):
    """A view that answers the same in every project: each policy that a project can choose for all views is its own.

    Who is known and who may ask is for the view to say: here nobody is.
    """

    renderer_classes = [OwnJSON]
    parser_classes = [JSONParser]
    authentication_classes = []
    throttle_classes = []
    permission_classes = [IsAuthenticated]
    content_negotiation_class = OwnNegotiation
    metadata_class = SimpleMetadata
    versioning_class = None
    settings = FRAMEWORK
    schema = None
    """None of the project's descriptions of its API: ours is at /api/schema/."""
