"""Who decides about rights: the grants of the mode that the settings ask for."""

from __future__ import annotations

from ..core.auth.basic_grants import BasicGrants
from ..core.auth.grants import Grants
from ..core.auth.hook_decisions import HookDecisions
from ..core.auth.hook_grants import CustomGrants, hooked
from ..core.auth.jwt_grants import JwtGrants
from ..core.auth.keys import Keys, is_address
from ..core.auth.rule_grants import RuleGrants
from ..core.protocol.errors import InvalidKeys
from ..edge.listen.key_file import read_key_file
from ..listen_address import SettingsError
from ..settings import PREFIX, Settings


def make_grants(settings: Settings) -> Grants:
    """Make the grants of ``settings.mode``, with a hook if there is one; raise SettingsError when the keys of its
    tokens cannot be read."""
    events = settings.hook_events
    asking = HookDecisions(events, settings.hook_seconds) if events else None
    match settings.mode:
        case "basic":
            return hooked(BasicGrants, asking)(settings.publish_token)
        case "jwt":
            names = settings.token_audience, settings.token_issuer
            leeway_ms = settings.token_leeway_seconds * 1000
            return hooked(JwtGrants, asking)(_keys(settings), *names, leeway_ms, settings.claim_map)
        case "rules":
            return hooked(RuleGrants, asking)(_keys(settings), settings.token_leeway_seconds * 1000)
        case "custom":
            return hooked(CustomGrants, asking)(events)
        case _:
            return hooked(Grants, asking)()


def _keys(settings: Settings) -> Keys:
    if not settings.token_keys or is_address(settings.token_keys):  # edge/listen/key_address.py brings them
        return Keys(settings.token_secret)
    try:
        return Keys(settings.token_secret, read_key_file(settings.token_keys))
    except OSError as error:
        reason = error.strerror or str(error)
    except InvalidKeys as error:
        reason = str(error)
    raise SettingsError(f"{PREFIX}TOKEN_KEYS: {settings.token_keys}: {reason}")
