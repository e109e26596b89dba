"""What a keyboard or a screen reader cannot use on a page, found by axe-core in the browser."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

SERIOUS = ("serious", "critical")
"""The impacts that count as faults; axe's others are hints."""

SCHEMES = ("light", "dark")

WIDTHS = (400, 900, 1400)
"""A phone, half a screen, a desk; in pixels."""


def faults(page: Page) -> list[str]:
    """What axe finds serious or critical on the page as it is now, with the elements."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {node['target']} {node.get('failureSummary', '')}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]


def assert_usable(page: Page) -> None:
    """Nothing serious in both schemes at three widths, and nothing that sticks out; leaves the page wide and light."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"sticks out at {width} pixels"
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert not faults(page), f"{scheme}, {width} pixels"
    page.emulate_media(color_scheme=SCHEMES[0])
