/** The words of the pages in the reader's language: from the catalogue that the page loads before (Django's JavaScriptCatalog), else English. */

const page = /** @type {any} */ (globalThis);

/** @param {string} text in English */
export function gettext(text) {
  return page.gettext ? String(page.gettext(text)) : text;
}

/** @param {string} one @param {string} many both in English @param {number} count */
export function ngettext(one, many, count) {
  if (page.ngettext) return String(page.ngettext(one, many, count));
  return count === 1 ? one : many;
}

/** Put values in the places of a text, `%(name)s`. @param {string} text @param {Record<string, unknown>} values */
export function fill(text, values) {
  return text.replaceAll(/%\((\w+)\)s/g, (_, name) => String(values[name]));
}

/** As which language numbers are written: that of the page. */
export const language = known(page.document?.documentElement.lang ?? "");

/** As which language times are written; English ones have 24 hours. */
export const timeLanguage = language === "en" ? "en-GB" : language;

/** @param {string} tag of the page; it may be any text */
function known(tag) {
  try {
    const [found = "en"] = Intl.NumberFormat.supportedLocalesOf(tag || "en");
    return found.startsWith("en") ? "en" : found;
  } catch {
    return "en";
  }
}
