"""What names subjects and addresses: subjects, patterns, ranges of addresses, origins, the header of a proxy."""

from __future__ import annotations

from fastpath.core.auth.allowed_addresses import UNKNOWN, Networks, client_of, host_of
from fastpath.core.auth.allowed_origins import Origins
from fastpath.core.auth.rules import BOTH, OWN, PUBLISH, SUBSCRIBE, Rule, RuleSet
from fastpath.core.matching.subject_tree import Tree
from fastpath.core.matching.subscribed_patterns import covers
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import check_pattern, check_subject
from fastpath.core.websocket.proxy_protocol import LINE_BYTES_MAX, SIGNATURE, BadProxy, parse_line, parse_proxy

from .targets import Target, check

NOW = 1_800_000_000_000
USER, UID = "bob", "7"


def patterns(data: bytes) -> None:
    """A subject or pattern is good or refused with a reason; the rules decide as a reading of protocol.md 2.3 does.

    The last line is the subject, those before it are patterns: allowing, denying, in turns.
    """
    *lines, subject = data.decode("utf-8", "surrogateescape").split("\n")[:20]
    try:
        check_subject(subject)
    except InvalidSubject:
        subject = "/a/b"
    rules, good = RuleSet(), [OWN]
    for number, text in enumerate(lines):
        try:
            check_pattern(text)
        except InvalidSubject:
            continue
        good.append(Rule(number, "everyone", text, BOTH if number & 2 else SUBSCRIBE, number % 2 == 0))
        rules.put(good[-1])
    for action in (SUBSCRIBE, PUBLISH):
        match = rules.decide(("everyone",), USER, subject, action, NOW, UID)
        covering = [one for one in good if one.action in (action, BOTH) and _covers(one.pattern, subject)]
        check((match is None) == (not covering), f"{subject!r}: {match} but {covering}")
        if match is not None:
            best = max((_rank(one.pattern), not one.allow) for one in covering)
            check((not match.allow) == best[1], f"{subject!r}: {match} decides, not {best}")
    for one in good[1:]:
        rules.remove(one.id)
    check(rules.decide(("everyone",), USER, subject, SUBSCRIBE, NOW, UID) in (None, OWN), "a removed rule decides")


def _covers(pattern: str, subject: str, *, names: bool = True) -> bool:
    """In a rule (``names``) ``{username}`` and ``{user_id}`` stand for who asks, and not for themselves."""
    wanted, given = pattern[1:].split("/"), subject[1:].split("/")
    if given[0] == "user" and wanted[0] != "user":
        return False
    if wanted[-1] == "**":
        wanted.pop()
        if len(given) <= len(wanted):
            return False
        given = given[: len(wanted)]
    if names:
        wanted = [{"{username}": USER, "{user_id}": UID}.get(want, want) for want in wanted]
    return len(wanted) == len(given) and all(want in ("*", have) for want, have in zip(wanted, given, strict=True))


def _rank(pattern: str) -> tuple[int, ...]:
    return tuple({"*": 1, "**": 0}.get(segment, 2) for segment in pattern[1:].split("/"))


def wildcards(data: bytes) -> None:
    """Which subjects a pattern finds: the first line is the pattern, the others are subjects, some taken out again."""
    pattern, *lines = data.decode("utf-8", "surrogateescape").split("\n")[:30]
    try:
        check_pattern(pattern, names=False)
    except InvalidSubject:
        pattern = "/a/*"
    tree, there = Tree(), dict[str, None]()
    for number, text in enumerate(lines):
        try:
            check_subject(text)
        except InvalidSubject:
            continue
        tree.add(text, text)
        there[text] = None
        if number % 4 == 3:
            gone = lines[number // 2]
            tree.discard(gone) if gone in there else None
            there.pop(gone, None)
    wanted = sorted(text for text in there if covers(pattern, text))
    found = sorted(filter(None, tree.find(pattern)))
    check(found == wanted, f"{pattern!r}: {found}, not {wanted}")
    for text in wanted:
        check(_covers(pattern, text, names=False), f"{pattern!r} does not cover {text!r}")
        check(
            text.split("/")[1] != "__sys__" or pattern.startswith("/__sys__/"),
            f"{pattern!r} finds what is the server's",
        )


def proxies(data: bytes) -> None:
    """A proxy's header is read when it is whole, the same however it comes, or refused; what is text is version 1."""
    is_line = data.startswith(b"PROXY")
    parse = parse_line if is_line else parse_proxy
    try:
        whole = parse(data)
    except BadProxy:
        return
    if whole is None:
        return
    check((15 if is_line else 16) <= whole.head_bytes <= len(data), "a header beyond its bytes")
    check(not is_line or whole.head_bytes <= LINE_BYTES_MAX, "a line that is too long")
    for end in (5, 13, 16, whole.head_bytes - 1):
        check(parse(data[: min(end, whole.head_bytes - 1)]) is None, "read before its end")
    check(not whole.address or host_of(whole.address) == whole.address, f"{whole.address!r} is no address")


def addresses(data: bytes) -> None:
    """Lists of addresses and of origins are read or refused with ValueError; what is asked of them is never a fault.

    The first line is the list, the second what is asked, the third an X-Forwarded-For.
    """
    listed, asked, forwarded, *_ = *data.decode("utf-8", "surrogateescape").split("\n"), "", ""
    for kind in (Networks, Origins):
        try:
            known = kind.parse(listed)
        except ValueError as error:
            check(str(error), "refused without a word")
            continue
        check(bool(known) or not listed.replace(",", "").strip(), "a list of nothing")
        _ = asked in known
        if isinstance(known, Networks):
            found = client_of(forwarded, asked, known)
            check(found in (asked, UNKNOWN) or host_of(found) == found, f"{found!r} is no address")
            check(found != asked or asked not in known or asked in map(host_of, forwarded.split(",")), "a proxy's own")


TARGETS = {
    "patterns": Target(
        patterns,
        (
            b"/a/*\n/a/b\n/**\n/a/b",
            b"/a/**\n/a/*/c\n/a/{username}/c\n/*/b/c\n/a/bob/c",
            b"/a/{username}\n/a/{user_id}\n/a/{username}",
            b"/__sys__/**\n/a\n//\n/\xc3\xa9/*\n/__sys__/stats",
            b"/" + b"a/" * 31 + b"a\n/" + b"*/" * 31 + b"*\n/" + b"a/" * 31 + b"a",
        ),
        (
            b"/**",
            b"/*",
            b"/{username}",
            b"/{user_id}",
            b"/bob",
            b"/7",
            b"/__sys__",
            b"\n/",
            b"*",
            b"{",
            b"\x00",
            b"\xed\xa0\x80",
        ),
        2048,
    ),
    "wildcards": Target(
        wildcards,
        (
            b"/a/*\n/a/b\n/a/c\n/b/c\n/a/b/c\n/a/d",
            b"/*/stats\n/__sys__/stats\n/a/stats",
            b"/a/**\n/a/b/c\n/a/b\n/a/b/d/e",
        ),
        (b"/**", b"/*", b"/__sys__", b"\n/", b"/a", b"{username}"),
        1024,
    ),
    "proxies": Target(
        proxies,
        (
            SIGNATURE + b"\x21\x11\x00\x0c" + bytes(12) + b"GET",
            SIGNATURE + b"\x21\x21\x00\x24" + bytes(36),
            SIGNATURE + b"\x20\x00\x00\x00",
            SIGNATURE + b"\x21\x31\x00\xd8" + bytes(216),
            SIGNATURE + b"\x21\x11\x00\x13" + bytes(12) + b"\x03\x00\x04abcd",
            b"PROXY TCP4 192.0.2.7 192.0.2.1 51000 8800\r\nGET",
            b"PROXY TCP6 2001:db8::7 ::1 51000 8800\r\n",
            b"PROXY UNKNOWN\r\n",
        ),
        (SIGNATURE, b"\x21\x11", b"\x21\x21", b"\xff\xff", b"PROXY ", b"TCP4 ", b"TCP6 ", b"UNKNOWN", b"\r\n"),
        2200,
    ),
    "addresses": Target(
        addresses,
        (
            b"10.0.0.0/8,::1,unix\n10.1.2.3\n1.2.3.4, 10.0.0.1",
            b"::ffff:10.0.0.0/104\n::ffff:10.0.0.1\n[::1]:80",
            b"https://a.example.com,*.example.com,http://[::1]:8000\nhttps://b.example.com:443",
        ),
        (
            b"https://",
            b"*.",
            b"example.com",
            b"/8",
            b"/129",
            b"::ffff:",
            b"unix",
            b"null",
            b":65536",
            b"%eth0",
            b"\xd9\xa1",
        ),
        512,
    ),
}
