"""The admin's pages about rules in a browser: by keyboard, on a phone, light and dark, with labels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.chromium import new_context
from tests.support.browser.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RULES = "/admin/entitlement/rule/"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The site with two subjects in use."""
    with Stack() as running:
        feed = running.feed()
        feed.send_batch([["/stocks/us/AAPL", "1"], ["/stocks/us/BAC", "1"]])
        feed.flush()
        feed.close()
        yield running


def _visit(browser: Browser, stack: Stack, path: str, width: int = 1400, scheme: str = "light") -> Page:
    context = new_context(
        browser,
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    page = context.new_page()
    page.goto(f"{stack.url}/admin/login/?next={RULES}{path}")
    page.fill("#id_username", "admin")
    page.fill("#id_password", "demo")
    page.keyboard.press("Enter")
    page.wait_for_selector("#content")
    return page


def test_preview_and_explain_by_keyboard(browser: Browser, stack: Stack) -> None:
    """Find the user by typing, submit with Enter, follow the subject to its explanation."""
    page = _visit(browser, stack, "preview/")
    page.locator(".select2-selection").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".select2-search__field")).to_be_focused()
    page.keyboard.type("bo")
    expect(page.locator(".select2-results__option--highlighted")).to_have_text("bob")
    page.keyboard.press("Enter")
    page.get_by_label("Subjects").fill("/stocks/us/*")
    page.keyboard.press("Enter")
    lines = page.locator(".rules-table tbody tr")
    expect(lines).to_have_count(2)
    expect(lines.nth(0)).to_contain_text("✕ no")
    expect(lines.nth(1)).to_contain_text("✓ yes")
    lines.nth(1).get_by_role("link", name="/stocks/us/BAC").focus()
    page.keyboard.press("Enter")
    verdict = page.locator(".rules-verdict")
    expect(verdict).to_contain_text("✓ Allowed")
    expect(verdict).to_contain_text("bob may subscribe /stocks/us/BAC: rule ")
    expect(page.locator("tr.rules-decides")).to_contain_text("→ it decides")
    expect(page.get_by_text("The running sidecar says: allowed.")).to_be_visible()
    page.context.close()


@pytest.mark.parametrize("width", [1100, 1280, 1500, 1920])
def test_no_column_of_the_list_is_cut_off(browser: Browser, stack: Stack, width: int) -> None:
    """However long patterns, names and notes are; all filters are there, beside the list or below it."""
    page = _visit(browser, stack, "add/", width)
    page.get_by_label("Everyone").check()
    page.get_by_label("Pattern").fill(f"/stocks/{'semiconductors' * 8}/{width}/**")
    page.get_by_label("Note").fill("As compliance asked for; a_word_without_a_place_where_a_line_could_be_broken")
    page.keyboard.press("Enter")
    results = page.locator("#changelist-form .results")
    expect(results).to_contain_text(f"/{width}/**")
    assert results.evaluate("box => box.scrollWidth - box.clientWidth") <= 0
    for checkbox in page.locator("#result_list .field-enabled input[type=checkbox]").all():
        box = checkbox.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.locator("#changelist-filter").get_by_role("link", name="a group")).to_be_visible()
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(browser: Browser, stack: Stack, scheme: str) -> None:
    """Nothing is wider than the screen, every field has a label, texts stand out from what is behind them."""
    page = _visit(browser, stack, "", 400, scheme)
    for path in ("preview/?user=&subjects=/stocks", "explain/?user=&subject=/stocks/us/BAC&action=publish", "import/"):
        page.goto(f"{stack.url}{RULES}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
        fields = page.locator("#content-main :is(input:not([type=hidden], [type=submit]), select, textarea)")
        for field in fields.all():
            assert field.evaluate("field => field.labels.length > 0"), field.get_attribute("name")
        for answer in page.locator(".rules-yes, .rules-no").all():
            assert answer.evaluate(_CONTRAST) >= 4.5
    page.context.close()


_CONTRAST = """element => {
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3)
      .map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let behind = element;
  while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const pair = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)];
  return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
}"""
"""The contrast of WCAG 2.1, 1.4.3."""
