"""Which pages a setting lets connect."""

from __future__ import annotations

import pytest

from fastpath.core.auth.allowed_origins import Origins

SETTING = "https://app.example.com, http://localhost:8000,*.example.org,https://*.example.net:8443,http://[::1]:8000/"

INSIDE = (
    "https://app.example.com",
    "https://APP.example.com:443",
    "http://localhost:8000",
    "https://a.example.org",
    "http://a.b.example.org:9999",
    "https://a.example.net:8443",
    "http://[::1]:8000",
)
OUTSIDE = (
    "http://app.example.com",
    "https://app.example.com:8443",
    "https://app.example.com.evil.test",
    "https://evil-app.example.com",
    "https://example.org",
    "https://evilexample.org",
    "https://a.example.net",
    "http://a.example.net:8443",
    "http://localhost",
    "null",
    "",
    "file://",
    "https://app.example.com/",
    "https://app.example.com, https://evil.test",
    "https://user@app.example.com",
    "ws://app.example.com",
)


def test_which_pages_are_in_the_list() -> None:
    origins = Origins.parse(SETTING)
    assert [origin for origin in INSIDE if origin not in origins] == []
    assert [origin for origin in OUTSIDE if origin in origins] == []
    assert origins
    assert not Origins.parse("")


@pytest.mark.parametrize(
    "text",
    ["app.example.com", "*", "https://", "https://*", "*.example.org:443", "ws://a.b", "https://a.b/path", "a b"],
)
def test_what_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is no origin: write"):
        Origins.parse(f"https://good.example.com,{text}")
