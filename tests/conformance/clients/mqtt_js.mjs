// What MQTT.js sees of a broker: node mqtt_js.mjs URL 4|5; a line of JSON, of what it was told.
import { connect, connectAsync } from "mqtt";

const [url, version] = [process.argv[2], Number(process.argv[3])];
const lasts = version === 5 ? { clean: false, properties: { sessionExpiryInterval: 60 } } : { clean: false };
const told = {};

const open = (clientId, options = {}) => connectAsync(url, { protocolVersion: version, clientId, ...options });

/** A client's messages, and a promise of the first so many of them. */
function messagesOf(client) {
    const messages = [];
    const waiting = [];
    client.on("message", (topic, payload, packet) => {
        messages.push([topic, payload.toString(), packet.qos, packet.retain, packet.properties?.contentType ?? null]);
        waiting.filter(([count]) => messages.length >= count).forEach(([, done]) => done(messages.slice()));
    });
    return (count) =>
        messages.length >= count ? messages.slice() : new Promise((done) => waiting.push([count, done]));
}

const reader = await open("reader");
const read = messagesOf(reader);
told.granted = (await reader.subscribeAsync(["js/+", "will/js"], { qos: 1 })).map((one) => one.qos);

const writer = await open("writer", { will: { topic: "will/js", payload: "gone", qos: 1 } });
await writer.publishAsync("js/a", "0", { qos: 0 });
const properties = version === 5 ? { contentType: "text/plain" } : undefined;
await writer.publishAsync("js/b", "1", { qos: 1, properties });
await writer.publishAsync("js/c", "2", { qos: 2 });
told.live = await read(3);

await writer.publishAsync("kept/js", "kept", { qos: 1, retain: true });
// By the client that published it: another worker may hear of it a moment later, and then it is live there.
const kept = messagesOf(writer);
await writer.subscribeAsync("kept/#", { qos: 1 });
told.retained = await kept(1);
await writer.publishAsync("kept/js", "", { qos: 1, retain: true });

writer.stream.destroy();
writer.end(true);
told.will = (await read(4)).slice(3);

const away = await open("away", lasts);
await away.subscribeAsync("missed/js", { qos: 1 });
await away.endAsync();
await reader.publishAsync("missed/js", "while away", { qos: 1 });
// Heard from the beginning: what was missed may come with the answer to its CONNECT.
told.missed = await messagesOf(connect(url, { protocolVersion: version, clientId: "away", ...lasts }))(1);
process.stdout.write(`${JSON.stringify(told)}\n`);
process.exit(0);
