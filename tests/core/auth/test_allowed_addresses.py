"""Which addresses a setting means, and whom a chain of proxies speaks for."""

from __future__ import annotations

import pytest

from fastpath.core.auth.allowed_addresses import KNOWN_MAX, UNKNOWN, Networks, client_of, host_of

SETTING = "127.0.0.1, ::1,10.0.0.0/8,2001:db8::/32, unix,192.0.2.7/32"

INSIDE = ("127.0.0.1", "::1", "10.255.0.1", "2001:db8:5::7", "unix", "192.0.2.7", "::ffff:10.1.1.1", "::ffff:7f00:1")
OUTSIDE = (UNKNOWN, "127.0.0.2", "11.0.0.1", "2001:db9::1", "192.0.2.8", "", "localhost", "10.1.1.1 ", "10.1", "UNIX")


def test_what_is_in_a_set() -> None:
    networks = Networks.parse(SETTING)
    assert [address for address in INSIDE if address not in networks] == []
    assert [address for address in OUTSIDE if address in networks] == []
    assert networks
    assert not Networks.parse(" , ")
    assert "127.0.0.1" not in Networks.parse("")


def test_what_it_remembers_is_bounded() -> None:
    networks = Networks.parse("10.0.0.0/8")
    for number in range(3 * KNOWN_MAX):
        assert f"10.{number >> 8 & 255}.{number & 255}.1" in networks
        assert f"11.{number >> 8 & 255}.{number & 255}.1" not in networks
    assert len(networks._known) <= KNOWN_MAX


@pytest.mark.parametrize(
    "text", ["10.0.0.1/8", "localhost", UNKNOWN, "10.0.0.0/33", "1.2.3", "10.0.0.*", "::1/129", "10.0.0.0-9"]
)
def test_what_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="write an address, a range such as") as error:
        Networks.parse(f"127.0.0.1,{text}")
    assert text in str(error.value)


HOSTS = {
    " 192.0.2.7 ": "192.0.2.7",
    "192.0.2.7:5000": "192.0.2.7",
    "[2001:db8::7]:443": "2001:db8::7",
    "[2001:db8::7]": "2001:db8::7",
    "2001:DB8::7": "2001:db8::7",
    "::ffff:192.0.2.7": "192.0.2.7",
    "unknown": "",
    "_hidden": "",
    "": "",
    "unix": "",
    "1" * 5000: "",
}


@pytest.mark.parametrize(("text", "address"), HOSTS.items(), ids=[text[:20] for text in HOSTS])
def test_an_entry_of_the_header(text: str, address: str) -> None:
    assert host_of(text) == address


CHAINS = {
    "a proxy": ("198.51.100.9", "127.0.0.1", "198.51.100.9"),
    "two proxies": ("198.51.100.9, 10.0.0.2", "127.0.0.1", "198.51.100.9"),
    "what the client wrote itself": ("1.1.1.1, 198.51.100.9", "127.0.0.1", "198.51.100.9"),
    "the client claims to be a proxy": ("1.1.1.1, 198.51.100.9, 10.0.0.2", "127.0.0.1", "198.51.100.9"),
    "a client inside": ("10.0.0.3, 10.0.0.2", "127.0.0.1", "10.0.0.3"),
    "no address": ("198.51.100.7, unknown", "127.0.0.1", UNKNOWN),
    "no address behind a proxy": ("unknown, 10.0.0.2", "127.0.0.1", UNKNOWN),
    "a unix socket behind a proxy": ("10.0.0.3, unix:", "127.0.0.1", UNKNOWN),
    "nothing": ("", "127.0.0.1", UNKNOWN),
    "no address before the client": ("unknown, 198.51.100.9", "127.0.0.1", "198.51.100.9"),
    "over a unix socket": ("198.51.100.9", "unix", "198.51.100.9"),
    "somebody who is no proxy": ("10.0.0.3", "198.51.100.9", "198.51.100.9"),
    "the word": ("unix", "198.51.100.9", "198.51.100.9"),
    "the word, through a proxy": ("unix", "127.0.0.1", UNKNOWN),
}


@pytest.mark.parametrize(("forwarded", "peer", "client"), CHAINS.values(), ids=CHAINS)
def test_for_whom_a_proxy_speaks(forwarded: str, peer: str, client: str) -> None:
    assert client_of(forwarded, peer, Networks.parse(SETTING)) == client
