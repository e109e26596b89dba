"""The debug console over a real site: every form, every frame, and what a change of the password does to a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.axe import assert_usable
from tests.support.browser.stack import Stack, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The site without Spark."""
    with Stack() as running:
        yield running


@pytest.fixture(scope="module")
def console(browser: Browser, stack: Stack) -> Iterator[Page]:
    """The console of the superuser."""
    page = sign_in(browser, stack, "admin", path="/console/")
    yield page
    page.context.close()


@pytest.fixture
def page(console: Page, stack: Stack) -> Iterator[Page]:
    """The console as it is when it is opened, connected; a fault in its script fails the test."""
    faults: list[str] = []
    console.once("pageerror", lambda error: faults.append(str(error)))
    console.goto(f"{stack.url}/console/")
    connect(console)
    yield console
    assert not faults, faults


def connect(page: Page) -> None:
    page.click("#connect-button")
    page.wait_for_selector('html[data-connection="connected"]')


def submit(page: Page, form: str, **fields: str) -> None:
    """Fill a form in, and send it."""
    for name, value in fields.items():
        page.fill(f'#{form} [name="{name}"]', value)
    page.locator(f"#{form} button:not([type=button])").click()


def frames(page: Page, kind: str) -> Any:
    """The lines of frames of one kind, newest first."""
    return page.locator(f'#frames [data-kind="{kind}"]')


def newest(page: Page, name: str) -> Any:
    """The newest message of a subject."""
    return page.locator(f'#subscriptions [data-name="{name}"] .newest')


def test_as_of_when_a_message_is(page: Page, stack: Stack) -> None:
    """Ahead of its content, however long that is; all that it says where one points at it."""
    submit(page, "subscribe", names="/stocks/us/KO")
    with stack.feed() as feed:
        feed.publish("/stocks/us/KO", "x" * 400, as_of=1_700_000_000_000)
        expect(newest(page, "/stocks/us/KO")).to_contain_text(re.compile(r"^data as of 14 Nov 2023.*: x"))
        expect(newest(page, "/stocks/us/KO")).to_have_attribute("title", re.compile("; data as of 14 Nov 2023"))
        feed.publish("/stocks/us/KO", "61.50")
        expect(newest(page, "/stocks/us/KO")).to_have_text("61.50")


def test_subscribe_publish_and_see_the_frames(page: Page) -> None:
    """A pattern and what it finds, a publication with all its options, and each frame both ways, without the token."""
    submit(page, "subscribe", names="/desk/*\n/desk/b", history="2", conflation="100")
    expect(page.locator('[data-name="/desk/*"] .state')).to_have_text("live")
    page.uncheck("#retained")
    submit(page, "publish", subject="/desk/a", content="hi", fields="from=ann\nmood=good = fine", closure="c-1",
           reply_to="/inbox/ann")  # fmt: skip
    expect(page.locator("#publish-outcome")).to_contain_text("accepted as")
    expect(newest(page, "/desk/a")).to_have_text("hi  from=ann  mood=good = fine")
    expect(page.locator('[data-name="/desk/a"]')).to_have_class("found")
    sent = frames(page, "publish").first
    expect(sent).to_have_attribute("data-way", "out")
    for part in ('"closure":"c-1"', '"retained":false', '"reply_to":"/inbox/ann"', '"mood":"good = fine"'):
        expect(sent).to_contain_text(part)
    expect(frames(page, "message").first).to_contain_text("/desk/a [")
    expect(frames(page, "connect").first).to_contain_text("characters)")
    sent.locator("summary").click()
    expect(sent.locator("pre")).to_contain_text("a7 70 75 62 6c 69 73 68")  # "publish" in its bytes
    page.fill("#filter", "desk/a [")
    expect(frames(page, "publish")).to_have_count(0)
    expect(frames(page, "message")).not_to_have_count(0)
    page.fill("#filter", "")
    page.check("#show-pings")
    expect(frames(page, "pong").first).to_be_visible()
    page.get_by_role("button", name="End /desk/*").click()
    expect(page.locator('[data-name="/desk/a"]')).to_have_count(0)
    expect(page.locator('[data-name="/desk/b"]')).to_have_count(1)


def test_a_flood_is_bounded(page: Page, stack: Stack) -> None:
    """However many frames come: the newest are shown, all are counted, and *hold* stops the list alone."""
    submit(page, "subscribe", names="/stocks/us/FLOOD")
    expect(page.locator('[data-name="/stocks/us/FLOOD"] .state')).to_have_text("live")
    with stack.feed() as feed:
        feed.send_batch([["/stocks/us/FLOOD", str(number)] for number in range(3000)])
    expect(newest(page, "/stocks/us/FLOOD")).to_have_text("2999")
    expect(page.locator('[data-name="/stocks/us/FLOOD"] .number')).to_have_text("3000")
    expect(page.locator("#frames li")).to_have_count(300)
    assert int(page.inner_text("#frame-count")) > 3000
    page.check("#hold")
    first = page.locator("#frames .what").first.inner_text()
    submit(page, "publish", subject="/stocks/us/FLOOD", content="held")
    expect(newest(page, "/stocks/us/FLOOD")).to_contain_text("held")
    assert page.locator("#frames .what").first.inner_text() == first
    page.uncheck("#hold")
    expect(frames(page, "published").first).to_be_visible()
    page.click("#clear")
    expect(page.locator("#frames li")).to_have_count(0)


def test_binary_and_what_cannot_be(page: Page) -> None:
    """Bytes are written as base64; what makes no sense, or is refused, is said below its form."""
    submit(page, "subscribe", names="/bytes/a", since="nonsense")
    expect(page.locator("#subscribe-outcome")).to_contain_text("since is")
    submit(page, "subscribe", since='{"/bytes/a": [1, 2]}')
    expect(frames(page, "subscribe").first).to_contain_text('"since":{"/bytes/a":[1,2]}')
    page.check("#binary")
    submit(page, "publish", subject="/bytes/a", content="AP8=", fields="")
    expect(newest(page, "/bytes/a")).to_have_text("2 bytes")
    submit(page, "publish", content="no base64!")
    expect(page.locator("#publish-outcome")).to_contain_text("base64")
    submit(page, "publish", content="AP8=", subject="/__sys__/x")
    expect(page.locator("#publish-outcome")).to_have_attribute("data-state", "bad")
    expect(page.locator("#publish-outcome")).to_contain_text("no rule allows it")
    submit(page, "subscribe", names="/bad", since="")
    expect(page.locator("#subscribe-outcome")).to_contain_text("only one segment")


def test_who_is_there_and_what_is_wanted(page: Page) -> None:
    """Presence is off in this site, which is said; interest is shown as it changes."""
    submit(page, "presence", subject="/chat/room1")
    expect(page.locator("#presence-outcome")).to_contain_text("presence")
    submit(page, "advertise", patterns="/feed/*, /feed/deep/**")
    expect(page.locator("#advertise-outcome")).to_contain_text("advertised /feed/*, /feed/deep/**")
    submit(page, "subscribe", names="/feed/a")
    expect(page.locator("#interest")).to_have_text("wanted: /feed/a")


def test_with_a_token_and_its_codes(page: Page, stack: Stack) -> None:
    """Another user by token, renewal, and what a bad token's close code means."""
    submit(page, "connect", server="ws://127.0.0.1:9/ws")
    expect(page.locator("#connect-outcome")).to_contain_text("this site's servers only")
    page.fill("#server", stack.client_url)
    page.select_option("#as", "token")
    submit(page, "connect", token=stack.manage("realtime_token", "bob").strip())
    expect(page.locator("#connect-outcome")).to_contain_text("connected as bob")
    page.fill("#token", stack.manage("realtime_token", "bob").strip())
    page.click("#renew")
    expect(page.locator("#connect-outcome")).to_contain_text("renewed as bob")
    page.fill("#token", stack.manage("realtime_token", "alice").strip())
    page.click("#renew")
    expect(page.locator("#connect-outcome")).to_contain_text("another user")
    submit(page, "connect", token="nonsense")
    expect(page.locator("#connect-outcome")).to_contain_text("4501 bad_token")
    expect(page.locator("html")).to_have_attribute("data-connection", "stopped")
    page.select_option("#as", "anonymous")
    page.select_option("#form", "json")
    connect(page)
    expect(page.locator("#connect-outcome")).to_contain_text("connected as anonymous")
    submit(page, "subscribe", names="/stocks/us/AAPL")
    expect(page.locator('[data-name="/stocks/us/AAPL"] .state')).to_have_text("denied")
    page.click("#disconnect")
    expect(page.locator("#state")).to_have_text("Not connected")


def test_as_code(page: Page) -> None:
    """The same in JavaScript and Python: the Python compiles, the JavaScript parses."""
    submit(page, "subscribe", names="/code/*", history="3")
    submit(page, "publish", subject="/code/a", content='say "hi"', fields="a=b")
    expect(newest(page, "/code/a")).to_contain_text("hi")
    page.locator("#code summary").click()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy")
    expect(page.locator("#copied")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#code-text").text_content()
    script = page.inner_text("#code-text")
    assert 'client.subscribe(["/code/*"]' in script
    assert '{"history":3}' in script
    body = script.split("\n", 1)[1]
    page.evaluate("(body) => { new (async () => {}).constructor(body); }", body)
    page.get_by_role("button", name="Python").click()
    program = page.inner_text("#code-text")
    compile(program, "console", "exec")
    assert 'await client.publish("/code/a", "say \\"hi\\"", {"a":"b"})' in program
    assert 'client.subscribe(["/code/*"], history=3)' in program


def test_keyboard_alone(page: Page) -> None:
    """Ctrl+Enter in a text sends its form, and a frame opens with Enter."""
    submit(page, "subscribe", names="/keys/a")
    page.fill("#subject", "/keys/a")
    page.fill("#content", "typed")
    page.locator("#content").press("Control+Enter")
    expect(newest(page, "/keys/a")).to_contain_text("typed")
    line = frames(page, "published").first
    line.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(line.locator("pre")).to_be_visible()


def test_it_fits(page: Page) -> None:
    """Nothing sticks out, on a phone either; every field has a label."""
    submit(page, "subscribe", names="/a/subject/with/a/rather/long/name/that/goes/on/and/on/and/on/and/on")
    submit(page, "publish", content="a long content " * 40)
    for details in ("#code", "#codes"):
        page.locator(f"{details} summary").click()
    for width in (400, 900, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    unlabelled = """() => [...document.querySelectorAll("main :is(input, select, textarea)")]
        .filter((field) => field.labels.length === 0).map((field) => field.id)"""
    assert page.evaluate(unlabelled) == []


def test_who_may_use_it(browser: Browser, stack: Stack) -> None:
    """Staff, and who has the permission; others are told."""
    page = sign_in(browser, stack, "bob")
    response = page.goto(f"{stack.url}/console/")
    assert response is not None
    assert response.status == 403
    permit(stack, "add")
    page.goto(f"{stack.url}/")
    page.get_by_role("link", name="Console").click()
    connect(page)
    assert page.get_by_role("link", name="Monitoring").count() == 0
    permit(stack, "remove")
    page.context.close()


def permit(stack: Stack, how: str) -> None:
    """Give bob the permission, or take it."""
    stack.manage(
        "shell",
        "-c",
        "from django.contrib.auth.models import Permission, User; "
        f"User.objects.get(username='bob').user_permissions.{how}(Permission.objects.get(codename='use_console'))",
    )


@pytest.fixture
def changed(stack: Stack) -> Iterator[None]:
    """The password of `admin` may be changed: whoever comes next signs in with the old one."""
    yield
    stack.manage(
        "shell",
        "-c",
        "from django.contrib.auth.models import User; "
        "root = User.objects.get(username='admin'); root.set_password('demo'); root.save()",
    )


@pytest.mark.usefixtures("changed")
def test_a_changed_password_ends_the_token_and_not_the_page(browser: Browser, stack: Stack) -> None:
    """Closed with 4007; who has a session that is still good comes back and misses nothing."""
    page = sign_in(browser, stack, "admin", path="/console/")
    connect(page)
    submit(page, "subscribe", names="/stocks/us/SECRET")
    submit(page, "publish", subject="/stocks/us/SECRET", content="before", fields="")
    expect(newest(page, "/stocks/us/SECRET")).to_have_text("before")
    # The site keeps the session in which the password is changed.
    page.evaluate(
        """async () => {
            const text = await (await fetch("/admin/password_change/")).text();
            const page = new DOMParser().parseFromString(text, "text/html");
            const csrf = page.querySelector("[name=csrfmiddlewaretoken]").value;
            const body = new URLSearchParams({ csrfmiddlewaretoken: csrf, old_password: "demo",
                new_password1: "another-Demo-9", new_password2: "another-Demo-9" });
            const answer = await fetch("/admin/password_change/", { method: "POST", body });
            if (!answer.redirected) throw new Error("not changed");
        }"""
    )
    expect(frames(page, "disconnected").first).to_contain_text("4007")
    with stack.feed() as feed:
        feed.send_batch([["/stocks/us/SECRET", "missed"]])
    expect(newest(page, "/stocks/us/SECRET")).to_have_text("missed")
    expect(frames(page, "synchronised")).to_have_count(1)
    page.context.close()


CSP = "default-src 'self'; connect-src 'self' ws: wss:"


def test_http_is_tried_under_a_strict_policy(browser: Browser, stack: Stack) -> None:
    """A publication and what is read of it, a stream that is stopped, and nothing that the policy forbids."""
    page = sign_in(browser, stack, "admin", path="/console/")
    try:
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text) if "Content Security Policy" in line.text else None)

        def with_policy(route: Route) -> None:
            answer = route.fetch()
            route.fulfill(response=answer, headers=answer.headers | {"content-security-policy": CSP})

        page.route("**/console/http/", with_policy)
        page.click("text=over HTTP")
        for operation, status in (("POST /api/publish", "200 OK"), ("GET /snapshot", "200 OK")):
            page.select_option("#operation", operation)
            page.click("#send")
            expect(page.locator("#outcome")).to_have_text(status)
        expect(page.locator("#answer")).to_contain_text('"content": "2:1"')
        expect(page.locator("#curl")).to_contain_text("Bearer $TOKEN")
        page.select_option("#as", "anonymous")
        page.click("#send")
        expect(page.locator("#outcome")).to_have_text("403 Forbidden")
        page.select_option("#as", "session")
        page.select_option("#operation", "GET /events")
        page.click("#send")
        expect(page.locator("#answer")).to_contain_text("event: connected")
        page.click("#stop")
        expect(page.locator("#outcome")).to_have_text("Stopped.")
        page.select_option("#operation", "GET /session/poll")
        page.click("#send")
        expect(page.locator("#answer")).to_contain_text('{"session":"')
        session = page.locator("#answer").inner_text().partition('{"session":"')[2].partition('"')[0]
        page.select_option("#operation", "POST /session/{session}")
        page.fill("#p0", session)
        page.click("#send")
        expect(page.locator("#outcome")).to_have_text("204 No Content")
        expect(page.locator("#curl")).to_contain_text(f"/session/{session}?n=1")
        assert not faults, faults
        assert_usable(page)
    finally:
        page.context.close()
