/** Keeps the parts of a page marked `data-live` up to date, with what the server makes of the same page. */

import { say } from "./common.js";
import { element } from "../pages/page.js";
import { gettext } from "../pages/words.js";

const corner = element("refreshed");
const box = element("live");
const text = element("refreshed-text");
const pause = Number(corner.dataset.seconds) * 1000;
let timer = 0;

corner.hidden = false;
box.addEventListener("change", () => { if (box.checked) refresh(); else clearTimeout(timer); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) later(0); });
if (box.checked) later(pause);

/** @param {number} ms */
function later(ms) {
  clearTimeout(timer);
  if (box.checked && !document.hidden) timer = window.setTimeout(refresh, ms);
}

async function refresh() {
  clearTimeout(timer);
  try {
    const response = await fetch(location.href, { headers: { "X-Live": "1" }, credentials: "same-origin", signal: AbortSignal.timeout(10_000) });
    if (response.redirected || response.status === 403) return stop(gettext("signed out"));
    if (response.status >= 500) throw new Error(`${response.status}`);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const gone = page.getElementById("gone");
    if (gone) return leave(gone);
    if (page.getElementById("unanswered")) throw new Error(gettext("its node does not answer"));
    for (const part of document.querySelectorAll("[data-live]")) replace(part, page.getElementById(part.id));
    say(text, page.getElementById("refreshed-text")?.textContent ?? "");
    corner.dataset.state = "";
  } catch {
    say(text, gettext("no answer, retrying"));
    corner.dataset.state = "bad";
  }
  later(pause);
}

/** What the page is about is not there any more: say so, and leave what was known of it. @param {Element} gone */
function leave(gone) {
  gone.setAttribute("role", "alert");
  document.querySelector("main .heading")?.after(document.importNode(gone, true));
  for (const button of document.querySelectorAll("main button")) /** @type {HTMLButtonElement} */ (button).disabled = true;
  stop(gettext("gone"));
}

/** @param {string} words */
function stop(words) {
  say(text, words);
  corner.dataset.state = "bad";
  box.checked = false;
  box.disabled = true;
}

/** Put the new part in; focus and scrolling stay, and what somebody reads or has marked to copy. @param {Element} old @param {Element | null} fresh */
function replace(old, fresh) {
  if (!fresh || old.innerHTML === fresh.innerHTML) return;
  const marked = getSelection();
  if (marked && !marked.isCollapsed && old.contains(marked.anchorNode)) return;
  if (old.querySelector("details[open]")) return; // somebody reads it
  const focus = focusable(old).indexOf(document.activeElement);
  const href = document.activeElement?.getAttribute("href");
  const places = [...old.querySelectorAll(".scroll")].map(({ scrollLeft, scrollTop }) => [scrollLeft, scrollTop]);
  old.replaceChildren(...document.importNode(fresh, true).childNodes);
  [...old.querySelectorAll(".scroll")].forEach((part, index) => { if (places[index]) part.scrollTo(places[index][0], places[index][1]); });
  if (focus < 0) return;
  // A link is known by its address, as rows move; anything else by its place.
  const all = focusable(old);
  (all.find((each) => href && each.getAttribute("href") === href) ?? all[focus])?.focus({ preventScroll: true });
}

/** @param {Element} part @returns {any[]} */
function focusable(part) {
  return [...part.querySelectorAll("a, summary, [tabindex]")];
}
