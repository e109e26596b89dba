"""The client in what frameworks make of their data, with Vue and Alpine as npm has them."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from tests.support.edge.wire import WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

BUILDS = {"vue": "dist/vue.esm-browser.prod.js", "alpinejs": "dist/module.esm.min.js"}

VUE = """
    const { createApp } = await import("/vendor/vue.js");
    document.body.innerHTML = `<div id="app">
        <p>{{ client?.state }}: {{ messages.join(",") }}</p>
        <button @click="say">say</button><button @click="leave">leave</button>
    </div>`;
    createApp({ data: () => component, mounted() { this.begin(); }, methods }).mount("#app");
"""
ALPINE = """
    const { default: Alpine } = await import("/vendor/alpinejs.js");
    Alpine.data("live", () => ({ ...component, ...methods, init() { this.begin(); } }));
    document.body.innerHTML = `<div x-data="live">
        <p x-text="client?.state + ': ' + messages.join(',')"></p>
        <button @click="say">say</button><button @click="leave">leave</button>
    </div>`;
    Alpine.start();
"""
COMPONENT = """async (url) => {
    const { connect } = await import("/realtime/static/realtime/client.js");
    window.results = [];
    const component = { client: null, subscription: null, messages: [], options: { urls: [{ url, weight: 100 }] } };
    const methods = {
        begin() {
            this.client = connect(this.options);
            this.client.on("subscribed", () => { window.ready = true; });
            this.subscription = this.client.subscribe(["/framework/a"], ({ content }) => this.messages.push(content));
        },
        async say() {
            const { seq } = await this.client.publish("/framework/a", "said", { fields: { of: "it" } });
            const responder = await this.client.respond("/framework/ask", (request) => `${request.content}!`);
            const { content } = await this.client.request("/framework/ask", "what");
            await responder.close();
            this.client.pause();
            this.client.resume();
            window.results.push([seq, content, this.client.user]);
        },
        async leave() {
            await this.subscription.unsubscribe();
            this.client.close();
            window.results.push([this.client.state, this.subscription.subjects.length]);
        },
    };
    FRAMEWORK
}"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest of each major version, from the registry."""
    folder = tmp_path_factory.mktemp("npm")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), "vue@3", "alpinejs@3"]
    subprocess.run(command, check=True, timeout=200, cwd=folder)
    return folder / "node_modules"


def _fulfil(path: Path, route: Route) -> None:
    route.fulfill(path=path)


@pytest.fixture
def vendored(page: Page, packages: Path) -> Page:
    """A page that finds them below ``/vendor/``."""
    for name, build in BUILDS.items():
        page.route(f"**/vendor/{name}.js", partial(_fulfil, packages / name / build))
    return page


@pytest.mark.parametrize("framework", [VUE, ALPINE], ids=["Vue", "Alpine"])
def test_a_component_holds_the_client_in_its_data(vendored: Page, sidecar: Sidecar, framework: str) -> None:
    """Deep within it, without markRaw: it is called, it is shown, and what comes is seen."""

    def shown() -> Any:
        return vendored.locator("p").inner_text().partition(": ")[2]

    vendored.evaluate(COMPONENT.replace("FRAMEWORK", framework), sidecar.client_url)
    until(lambda: vendored.evaluate("globalThis.ready ?? false"))
    with WirePublisher(sidecar) as publisher:
        [seq] = publisher.publish(["/framework/a", "first"])
        until(lambda: shown() == "first")
        vendored.get_by_text("say").click()
        assert until(lambda: vendored.evaluate("results")) == [[seq + 1, "what!", ""]]
        until(lambda: shown() == "first,said")
        publisher.publish(["/framework/a", "last"])
        until(lambda: shown() == "first,said,last")
        vendored.get_by_text("leave").click()
        assert until(lambda: vendored.evaluate("results")[1:]) == [["closed", 1]]
