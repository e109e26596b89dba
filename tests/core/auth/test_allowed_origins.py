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


APPS = (
    "capacitor://localhost",
    "ionic://localhost:8100",
    "chrome-extension://abcdefghijklmnop",
    "moz-extension://5f0d2c9e-1b2c-4d5e-8f90-a1b2c3d4e5f6",
    "app+web.v1://a_b",
    "https://my_app.example.com",
    "http://_dmarc.my_host:8080",
)


@pytest.mark.parametrize("origin", APPS)
def test_any_scheme_and_host(origin: str) -> None:
    """Each lets in itself, however it is written, and no other."""
    origins = Origins.parse(f" {origin}/ ")
    assert origin in origins
    assert origin.upper() in origins
    assert [other for other in (*APPS, *INSIDE, "http://localhost", "null", f"{origin}.evil") if other in origins] == [
        origin
    ]
    assert f"{origin}:1" not in origins


def test_names_below_with_any_host_and_an_app_only_by_its_scheme() -> None:
    """``*.example.org`` is of pages of the web: an app names itself as it likes."""
    origins = Origins.parse("*.example.org,app://*.example.com")
    assert "https://my_app.example.org" in origins
    assert "app://a.example.com" in origins
    assert "app://a.example.org" not in origins
    assert "https://a.example.com" not in origins


@pytest.mark.parametrize(
    "text",
    [
        "app.example.com",
        "*",
        "https://",
        "https://*",
        "*.example.org:443",
        "ws://a.b",
        "https://a.b/path",
        "a b",
        "null",
        "://a.b",
        "1x://a",
        "http://a:99999",
    ],
)
def test_what_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is no origin: write"):
        Origins.parse(f"https://good.example.com,{text}")
