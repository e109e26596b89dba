"""python -m tests.screenshots [NAME…]: writes the pictures of the manual anew, of the demonstration as it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

from tests.screenshots.animation import Frame, animated
from tests.support.browser.chromium import CHROMIUM, FLAGS
from tests.support.browser.stack import Stack, sign_in
from tests.support.waiting import until

FOLDER = Path(__file__).parents[2] / "docs" / "images"
WIDTH = 1100
PATIENT_SECONDS = 300
"""Seconds that Spark may take until its first prices, on a machine with much else to do."""
FRAMES, FRAME_MS = 8, 700


class Studio:
    """The demonstration, a browser, and what is pictured of both."""

    def __init__(self, stack: Stack, browser: Browser) -> None:
        self._stack, self._browser = stack, browser

    def board(self) -> bytes:
        """Picture what alice sees, with candles of one instrument."""
        page = self._board("alice")
        page.goto(f"{self._stack.url}/#AAPL/1s")
        page.wait_for_selector('#candles[data-state="live"]', timeout=PATIENT_SECONDS * 1000)
        return self._taken(page)

    def console(self) -> bytes:
        """Picture the console: connected, subscribed, with the frames."""
        page = sign_in(self._browser, self._stack, "admin", WIDTH, "/console/")
        page.click("#connect-button")
        page.wait_for_selector('html[data-connection="connected"]')
        page.locator("#subscribe button:not([type=button])").click()
        page.wait_for_selector("#frames li, #frames tr, #frames [data-kind]")
        return self._taken(page)

    def monitoring(self) -> bytes:
        """Picture the operator's overview, with a minute of figures."""
        page = sign_in(self._browser, self._stack, "admin", WIDTH, "/monitoring/")
        page.wait_for_timeout(20_000)
        return self._taken(page)

    def rules(self) -> bytes:
        """Picture the rules in the admin."""
        page = sign_in(self._browser, self._stack, "admin", WIDTH)
        page.goto(f"{self._stack.url}/admin/entitlement/rule/")
        return self._taken(page)

    def prices(self) -> bytes:
        """Picture prices that move."""
        page = self._board("alice")
        return animated([self._frame(page) for _ in range(FRAMES)])

    def right(self) -> bytes:
        """Picture a right that goes while the page is open, and comes back."""
        page = self._board("bob")
        row = '[data-subject="/stocks/us/BAC"]'
        page.wait_for_selector(f'{row}[data-state="live"]')
        frames = [self._frame(page) for _ in range(2)]
        self._stack.manage("entitlement_rules", "deny", "user:bob", "/*/us/BAC")
        page.wait_for_selector(f'{row}[data-state="denied"]')
        frames += [self._frame(page) for _ in range(3)]
        self._stack.manage("entitlement_rules", "allow", "user:bob", "/stocks/us/BAC")
        page.wait_for_selector(f'{row}[data-state="live"]')
        return animated([*frames, *(self._frame(page) for _ in range(3))])

    def _board(self, user: str) -> Page:
        """Open somebody's board, as soon as prices come."""
        page = sign_in(self._browser, self._stack, user, WIDTH)
        until(lambda: page.locator('tr[data-state="live"]').count() > 0, PATIENT_SECONDS)
        return page

    def _frame(self, page: Page) -> Frame:
        page.wait_for_timeout(FRAME_MS)
        box = page.locator("table").first.bounding_box()
        assert box is not None
        clip: FloatRect = {"x": box["x"], "y": box["y"], "width": min(box["width"], 640), "height": 330}
        return page.screenshot(clip=clip, animations="disabled"), FRAME_MS

    def _taken(self, page: Page) -> bytes:
        picture = page.screenshot(animations="disabled")
        page.context.close()
        return picture


PICTURES: dict[str, Callable[[Studio], bytes]] = {
    "board.png": Studio.board,
    "console.png": Studio.console,
    "monitoring.png": Studio.monitoring,
    "rules.png": Studio.rules,
    "prices-move.png": Studio.prices,
    "a-right-goes.png": Studio.right,
}


def main() -> int:
    """Run the command line; return the exit status."""
    names = sys.argv[1:] or list(PICTURES)
    if unknown := set(names) - set(PICTURES):
        sys.stderr.write(f"screenshots: there is no {', '.join(sorted(unknown))}, but {', '.join(PICTURES)}\n")
        return 2
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright, Stack("--demo") as stack:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        studio = Studio(stack, browser)
        for name in names:
            (FOLDER / name).write_bytes(PICTURES[name](studio))
            sys.stderr.write(f"{FOLDER / name}\n")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
