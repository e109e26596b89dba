"""Mode ``jwt``: the token of an outside issuer carries the patterns (protocol.md 8.4)."""

from __future__ import annotations

from .errors import InvalidSubject
from .grants import ANSWERS_MAX, Grants, Principal, bounded
from .rules import SUBSCRIBE, Rule, RuleSet
from .subject import check_pattern
from .tokens import verify


class JwtGrants(Grants):
    """Mode ``jwt``: the token of an outside issuer carries the patterns (protocol.md 8.4)."""

    mode = "jwt"

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def principal(self, token: str, now: int) -> Principal:
        """Raises Refused when the token is not valid; anonymous has no rights at all."""
        return Principal(verify(token, self._secret, now, audience=None) if token else None, False, ())

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Allowed when a pattern of the action or of ``all`` covers the subject."""
        if principal.claims is None:
            return "a token is needed"
        if principal.answers is None:
            principal.answers = {}
        answer = principal.answers.get((action, subject))
        if answer is None:
            permissions = principal.claims.permissions
            own = permissions["sub" if action == SUBSCRIBE else "pub"] + permissions["all"]
            rules = RuleSet()
            for number, pattern in enumerate(own):
                if _is_pattern(pattern):
                    rules.put(Rule(number, "token", pattern, action, True))
            match = rules.decide(("token",), principal.user, subject, action, now)
            answer = "" if match else "no permission in the token covers it"
            if len(principal.answers) >= ANSWERS_MAX:
                principal.answers.clear()
            principal.answers[action, subject] = answer
        return answer

    def publishable(self, principal: Principal) -> set[str] | None:
        """What the token allows stays so."""
        return bounded(principal)


def _is_pattern(text: str) -> bool:
    """Whether an outside issuer's pattern is one; what is none allows nothing."""
    try:
        check_pattern(text)
    except InvalidSubject:
        return False
    return True
