/** The page of one client: pings it without leaving the page. */

import { fetchJson, milliseconds } from "./common.js";
import { element } from "../pages/page.js";
import { fill, gettext } from "../pages/words.js";

const KEPT = 5;

const form = element("ping-form");
const outcome = element("ping-outcome");
/** @type {string[]} */
const earlier = [];

form?.addEventListener("submit", async (/** @type {SubmitEvent} */ event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  say("", gettext("asked …"));
  try {
    const { ms } = await fetchJson(form.action, { method: "POST", body: new FormData(form), headers: { Accept: "application/json" } });
    say("good", earlier.length ? fill(gettext("%(time)s; before: %(earlier)s"), { time: milliseconds(ms), earlier: earlier.join(", ") }) : milliseconds(ms));
    earlier.unshift(milliseconds(ms));
    earlier.length = Math.min(earlier.length, KEPT);
  } catch (error) {
    say("bad", /** @type {Error} */ (error).message);
  }
  button.disabled = false;
  button.focus();
});

/** @param {string} mood @param {string} words */
function say(mood, words) {
  outcome.dataset.state = mood;
  outcome.textContent = words;
}
