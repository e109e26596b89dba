"""The demonstration's login page, and the icon that browsers ask for."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from realtime.views import is_demo

_FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0b1f33"/>'
    '<path d="M2 11l3-4 3 2 5-6" fill="none" stroke="#37d67a" stroke-width="2"/></svg>'
)


@login_not_required
@require_safe
@cache_control(max_age=86400, public=True)
def favicon(_: HttpRequest) -> HttpResponse:
    """Show the icon that browsers ask for without being told to."""
    return HttpResponse(_FAVICON, content_type="image/svg+xml")


class SignIn(LoginView):
    """The login page; in the demonstration it names the users."""

    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Add to the form's context whether this is the demonstration."""
        return super().get_context_data(**kwargs) | {"demo": is_demo()}
