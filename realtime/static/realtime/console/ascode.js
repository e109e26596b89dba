/** What was done in the console, as a program in JavaScript or Python. */

/**
 * @typedef {{server: string, form: string, as: string, clientUrl: string, tokenUrl: string,
 *   subscriptions: {names: string[], history: number, conflation: number, slow: string, since: any}[],
 *   publication: null | {subject: string, content: string, isBinary: boolean, fields: Record<string, string>,
 *     retained: boolean, qos: string, closure: string, replyTo: string},
 *   patterns: string[]}} Done
 */

/** @param {Done} done @param {string} language "javascript" or "python" */
export function program(done, language) {
  return language === "python" ? python(done) : javascript(done);
}

const text = JSON.stringify;

/** @param {Done} done */
function javascript({ server, form, as, clientUrl, tokenUrl, subscriptions, publication, patterns }) {
  const token = { session: "token: fetchToken", token: "token: TOKEN", anonymous: "" }[as];
  const options = [`urls: ${text(server)}`, token, form === "json" && 'form: "json"'].filter(Boolean).join(", ");
  const lines = [`import { connect } from ${text(clientUrl)};`, ""];
  if (as === "session") {
    lines.push(
      `const fetchToken = async () => (await (await fetch(${text(tokenUrl)}, {`,
      '  method: "POST", headers: { "X-CSRFToken": csrfToken },', "})).json()).token;", "");
  }
  lines.push(`const client = connect({ ${options} });`, 'client.on("status", (status) => console.log(status.name, status));');
  for (const { names, history, conflation, slow, since } of subscriptions) {
    const given = { ...(history && { history }), ...(conflation && { conflation }), ...(since && { since }), ...(slow !== "close" && { slow }) };
    const last = Object.keys(given).length ? `, ${text(given)}` : "";
    const heard = "({ subject, content, fields }) => console.log(subject, content, fields)";
    lines.push(`client.subscribe(${text(names)}, ${heard}${last});`);
  }
  if (patterns.length) lines.push(`await client.advertise(${text(patterns)}, (subjects, wanted) => console.log(subjects, wanted));`);
  if (publication) {
    const { subject, content, isBinary, fields, retained, qos, closure, replyTo } = publication;
    const given = {
      ...(Object.keys(fields).length && { fields }), ...(!retained && { retained }), ...(qos !== "guaranteed" && { qos }),
      ...(closure && { closure }), ...(replyTo && { replyTo }),
    };
    const last = Object.keys(given).length ? `, ${text(given)}` : "";
    const value = isBinary ? `Uint8Array.from(atob(${text(content)}), (each) => each.charCodeAt(0))` : text(content);
    lines.push(`await client.publish(${text(subject)}, ${value}${last});`);
  }
  return `${lines.join("\n")}\n`;
}

/** @param {Done} done */
function python({ server, form, as, subscriptions, publication, patterns }) {
  const lines = ["import asyncio"];
  if (publication?.isBinary) lines.push("from base64 import b64decode");
  lines.push("", "from fastpath.client import connect", "");
  if (as !== "anonymous") lines.push('TOKEN = "…"  # python manage.py realtime_token USER', "");
  if (subscriptions.length) {
    lines.push("", "async def read(stream):", "    async for message in stream:", "        print(message.subject, message.content, message.fields)", "");
  }
  const token = as === "anonymous" ? "" : ", TOKEN";
  const inForm = form === "json" ? ', form="json"' : "";
  lines.push("", "async def main():", `    async with connect(${text(server)}${token}${inForm}) as client:`);
  if (patterns.length) lines.push(`        await client.advertise(${text(patterns)}, print)`);
  if (publication) {
    const { subject, content, isBinary, fields, retained, qos, closure, replyTo } = publication;
    const value = isBinary ? `b64decode(${text(content)})` : text(content);
    const rest = [
      Object.keys(fields).length && text(fields), !retained && "retained=False", qos !== "guaranteed" && `qos=${text(qos)}`,
      closure && `closure=${text(closure)}`, replyTo && `reply_to=${text(replyTo)}`,
    ].filter(Boolean).map((each) => `, ${each}`).join("");
    lines.push(`        await client.publish(${text(subject)}, ${value}${rest})`);
  }
  const streams = subscriptions.map(({ names, history, conflation, slow, since }) => {
    const rest = [
      history && `history=${history}`, conflation && `conflation=${conflation}`,
      since && `since=${Array.isArray(since) ? `(${since.join(", ")})` : text(since)}`, slow !== "close" && `slow=${text(slow)}`,
    ].filter(Boolean).map((each) => `, ${each}`).join("");
    return `read(client.subscribe(${text(names)}${rest}))`;
  });
  if (streams.length === 1) lines.push(`        await ${streams[0]}`);
  else if (streams.length) lines.push("        await asyncio.gather(", ...streams.map((each) => `            ${each},`), "        )");
  else if (!publication && !patterns.length) lines.push('        print("connected as", client.user)');
  else if (!publication) lines.push("        await asyncio.Event().wait()");
  lines.push("", "", "asyncio.run(main())");
  return `${lines.join("\n")}\n`;
}
