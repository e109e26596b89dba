"""The project's settings with all that."""

from realtime.settings import *  # noqa: F403

_HERE = "tests.support.realtime.choosing.policies"

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": [f"{_HERE}.Renamed", "rest_framework.renderers.BrowsableAPIRenderer"],
    "DEFAULT_PARSER_CLASSES": [f"{_HERE}.Unreadable"],
    "DEFAULT_PERMISSION_CLASSES": [f"{_HERE}.Nobody"],
    "DEFAULT_THROTTLE_CLASSES": [f"{_HERE}.Never"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": f"{_HERE}.LastOne",
    "DEFAULT_METADATA_CLASS": f"{_HERE}.Silent",
    "DEFAULT_VERSIONING_CLASS": f"{_HERE}.Unversioned",
    "DEFAULT_SCHEMA_CLASS": "rest_framework.schemas.coreapi.AutoSchema",
    "EXCEPTION_HANDLER": f"{_HERE}.wrapped",
    "VIEW_NAME_FUNCTION": f"{_HERE}.named",
    "VIEW_DESCRIPTION_FUNCTION": f"{_HERE}.named",
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
    "URL_FORMAT_OVERRIDE": None,
    "FORMAT_SUFFIX_KWARG": "path",
    "UNICODE_JSON": False,
    "COMPACT_JSON": False,
    "STRICT_JSON": False,
}
