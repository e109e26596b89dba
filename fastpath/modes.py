"""Who decides about rights: the grants of the mode that the settings ask for."""

from __future__ import annotations

from .core.asking import Asking
from .core.errors import InvalidKeys
from .core.grants import Grants
from .core.grants_basic import BasicGrants
from .core.grants_custom import CustomGrants, hooked
from .core.grants_jwt import JwtGrants
from .core.grants_rules import RuleGrants
from .core.keys import Keys
from .edge.key_file import read_key_file
from .listener import SettingsError
from .settings import Settings
from .settings_checks import PREFIX


def make_grants(settings: Settings) -> Grants:
    """The grants of ``settings.mode``, with a hook if there is one; raises SettingsError when the keys of its tokens
    cannot be read."""
    events = settings.hook_events
    asking = Asking(events, settings.hook_seconds) if events else None
    match settings.mode:
        case "basic":
            return hooked(BasicGrants, asking)(settings.publish_token)
        case "jwt":
            return hooked(JwtGrants, asking)(_keys(settings), settings.token_audience, settings.token_issuer)
        case "rules":
            return hooked(RuleGrants, asking)(_keys(settings))
        case "custom":
            return hooked(CustomGrants, asking)(events)
        case _:
            return hooked(Grants, asking)()


def _keys(settings: Settings) -> Keys:
    if not settings.token_keys:
        return Keys(settings.token_secret)
    try:
        return Keys(settings.token_secret, read_key_file(settings.token_keys))
    except OSError as error:
        reason = error.strerror or str(error)
    except InvalidKeys as error:
        reason = str(error)
    raise SettingsError(f"{PREFIX}TOKEN_KEYS: {settings.token_keys}: {reason}")
