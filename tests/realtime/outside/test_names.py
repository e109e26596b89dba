"""By which names the statistics' own address answers where it has no password."""

from __future__ import annotations

import pytest
from django.core.exceptions import DisallowedHost
from django.http import HttpResponse
from django.test import RequestFactory

from realtime.addresses import Address
from realtime.outside.names import OwnNames, own_names


class Answering(OwnNames):
    """The address http://*:9100, of a project whose name is site.example."""

    names = own_names(["site.example"], Address("*", 9100))


@pytest.mark.parametrize(
    ("host", "is_answered"),
    [
        ("10.1.2.3:9100", True),
        ("[::1]:9100", True),
        ("localhost", True),
        ("site.example:9100", True),
        ("evil.example", False),
        ("10.1.2.3.evil.example", False),
        ("10.1.2", False),
        ("", False),
    ],
)
def test_any_address_and_no_foreign_name(host: str, is_answered: bool, settings: object) -> None:
    settings.ALLOWED_HOSTS = ["*"]  # type: ignore[attr-defined]
    request = RequestFactory().get("/", headers={"Host": host})
    if is_answered:
        assert Answering(lambda _: HttpResponse("figures"))(request).content == b"figures"
    else:
        with pytest.raises(DisallowedHost):
            Answering(lambda _: HttpResponse("figures"))(request)


def test_names_of_an_address() -> None:
    assert own_names([], Address("stats.example", 1)) == ["localhost", "stats.example"]
    assert "*" not in own_names([], Address("*", 1))
