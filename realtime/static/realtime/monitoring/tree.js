/** The tree of subjects: opens a place where it stands, a page of its segments at a time. */

import { element } from "../pages/page.js";
import { fill, gettext } from "../pages/words.js";

const FILTER_MS = 250;

const tree = element("tree");
const outcome = element("tree-outcome");
let timer = 0;
let asked = 0;

/** @param {string} address @returns {Promise<Element>} the level as the server draws it; throws Error */
async function level(address) {
  const url = new URL(address, location.href);
  url.searchParams.set("subject", tree.dataset.subject);
  const response = await fetch(url, { credentials: "same-origin", signal: AbortSignal.timeout(10_000) });
  if (!response.ok) throw new Error((await response.json()).detail ?? fill(gettext("the web server answers %(status)s"), { status: response.status }));
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const found = document.importNode(/** @type {Element} */ (page.querySelector("ul.level")), true);
  reveal(found);
  return found;
}

/** What turns pages works now. @param {Element} part */
function reveal(part) {
  for (const turn of part.querySelectorAll("li.turn")) /** @type {HTMLElement} */ (turn).hidden = false;
}

/** Open a place, or close it again. @param {HTMLElement} twist */
async function toggle(twist) {
  const item = /** @type {Element} */ (twist.closest("li"));
  const open = item.querySelector(":scope > ul");
  if (open) {
    open.remove();
    twist.setAttribute("aria-expanded", "false");
  } else if (!twist.dataset.busy) {
    twist.dataset.busy = "1";
    try {
      item.append(await level(/** @type {string} */ (twist.dataset.level)));
      twist.setAttribute("aria-expanded", "true");
    } finally {
      delete twist.dataset.busy;
    }
  }
}

/** Show another page of a level. @param {Element} turn its last line @param {string} after @param {string} begins */
async function go(turn, after, begins) {
  const url = new URL(/** @type {string} */ (/** @type {HTMLElement} */ (turn).dataset.level), location.href);
  if (after) url.searchParams.set("after", after);
  if (begins) url.searchParams.set("begins", begins);
  const number = ++asked;
  const fresh = await level(url.href);
  if (number !== asked) return; // what was typed since is asked for already
  const typing = document.activeElement?.matches("[data-begins]");
  turn.closest("ul")?.replaceWith(fresh);
  const field = /** @type {HTMLInputElement | null} */ (fresh.querySelector(":scope > .turn [data-begins]"));
  if (typing && field) {
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  } else {
    /** @type {HTMLElement | null} */ (fresh.querySelector("a"))?.focus();
  }
}

/** @param {() => Promise<void>} action what goes wrong is said below the tree */
async function attempt(action) {
  try {
    await action();
    outcome.textContent = "";
  } catch (error) {
    outcome.dataset.state = "bad";
    outcome.textContent = /** @type {Error} */ (error).message;
  }
}

tree.addEventListener("click", (/** @type {MouseEvent} */ event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const twist = /** @type {HTMLElement | null} */ (target.closest("a.twist"));
  if (twist) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    attempt(() => toggle(twist));
  }
  const button = /** @type {HTMLElement | null} */ (target.closest("[data-turn]"));
  const turn = button?.closest(".turn");
  if (button && turn) attempt(() => go(turn, button.dataset.turn ?? "", begins(turn)));
});

tree.addEventListener("input", (/** @type {Event} */ event) => {
  const turn = /** @type {HTMLElement} */ (event.target).closest(".turn");
  clearTimeout(timer);
  if (turn) timer = window.setTimeout(() => attempt(() => go(turn, "", begins(turn))), FILTER_MS);
});

/** @param {Element} turn */
function begins(turn) {
  return /** @type {HTMLInputElement} */ (turn.querySelector("[data-begins]")).value;
}

reveal(tree);
tree.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
