"""What a page's console says is wrong: errors, what its policy refuses, and what its scripts raise."""

from __future__ import annotations

from playwright.sync_api import Page


def faults_of(page: Page) -> list[str]:
    """Filled from now on; a browser asks for a favicon by itself, which a project need not have."""
    said: list[str] = []
    page.on(
        "console",
        lambda message: (
            said.append(message.text) if message.type == "error" and "favicon" not in str(message.location) else None
        ),
    )
    page.on("pageerror", lambda error: said.append(str(error.stack)))
    return said
