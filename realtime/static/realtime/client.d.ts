/** Types of the JavaScript client; docs/develop/javascript.md is its guide. */

/** Text, or binary. */
export type Value = string | Uint8Array;

/** The place of a message in its subject. */
export type Position = readonly [epoch: number, seq: number];

/** As of when data is, by whoever published it. */
export interface AsOf {
  /** Milliseconds since 1970-01-01 UTC, or the publisher's words. */
  readonly time?: number | string;
  readonly batch?: number;
  readonly job?: string;
  readonly version?: number;
}

export interface Message {
  readonly subject: string;
  readonly content: Value;
  readonly fields: Readonly<Record<string, Value>>;
  /** 0 for standard quality, as is seq. */
  readonly epoch: number;
  readonly seq: number;
  /** When the server accepted it: milliseconds since 1970-01-01 UTC. */
  readonly time: number;
  readonly kind: "update" | "snapshot" | "recovered" | "historical";
  readonly retained: boolean;
  readonly qos: "guaranteed" | "standard";
  readonly replyTo: string;
  readonly closure: string;
  /** null when the publisher does not say. */
  readonly asOf: string | number | AsOf | null;
  /** It ended the subject, of which nothing is left; what comes after it begins with nothing. */
  readonly removed: boolean;
  /** The context of the trace that it belongs to (W3C Trace Context); "" without one. */
  readonly traceparent: string;
  /** What the content says in JSON, or the field of that name (undefined without it). Throws SyntaxError. */
  json(field?: string): any;
}

export type StatusName =
  | "connecting" | "connected" | "disconnected" | "down" | "reconnectRateExceeded" | "paused" | "closed"
  | "subscribed" | "granted" | "denied" | "partial" | "revoked" | "notReady" | "refused" | "limited" | "notAdvertised"
  | "synchronised" | "resynchronised" | "gap" | "lagging" | "caughtUp"
  | "published" | "publishDenied" | "publishTooLarge" | "publishFailed"
  | "latency" | "expiring" | "notice" | "error";

/** What became of a publication, other than "ok". */
export type PublishStatus =
  | "denied" | "failed" | "too_large" | "not_ready" | "invalid" | "limit" | "queue_full" | "unknown";

/** What happened; which keys are there depends on the name (docs/develop/javascript.md lists them). */
export interface Status {
  readonly name: StatusName;
  readonly url?: string;
  readonly via?: "direct" | "relay";
  readonly transport?: Transport;
  readonly user?: string;
  readonly server?: string;
  readonly subject?: string;
  /** The pattern that found the subject. */
  readonly pattern?: string;
  readonly recovery?: "" | "recovered" | "resynchronised";
  readonly code?: number | string;
  readonly codeName?: string;
  readonly reason?: string;
  /** Whether the client gave up; `resume()` tries again. */
  readonly final?: boolean;
  readonly retryMs?: number;
  /** Rounds in a row in which no server answered. */
  readonly attempts?: number;
  /** Reconnections within the last three minutes. */
  readonly count?: number;
  readonly closure?: string;
  readonly status?: PublishStatus;
  readonly epoch?: number;
  readonly seq?: number;
  readonly ms?: number;
  readonly clockOffsetMs?: number;
  readonly expires?: number;
  /** The other servers that a notice "drain" names. */
  readonly servers?: readonly Server[];
}

export interface Server {
  readonly url: string;
  /** 0 to 100, default 100: how often it is picked; 0: only where no other is left. */
  readonly weight?: number;
}

/** What carries the frames: a WebSocket; one long answer and POST; answers asked for one after the other and POST. */
export type Transport = "websocket" | "stream" | "poll";

export interface Options {
  /** One server or several; may be left out when there is a `serversUrl`. */
  urls?: string | Server | readonly (string | Server)[];
  /** Where the list of servers is had before each reconnection: an address such as "/api/servers/", or a function. */
  serversUrl?: string | (() => ServerAnswer | Promise<ServerAnswer>);
  /** A token, or a function that gets one; an error it throws with `final: true` ends the client's attempts. */
  token?: string | (() => Promise<string> | string);
  /** How long a function `token` or `serversUrl` may take; one that takes longer has failed; default 15. */
  tokenSeconds?: number;
  /** Default "msgpack". */
  form?: "msgpack" | "json";
  /** Which are tried, from the fastest down, until one works; default all, one alone is pinned. */
  transports?: readonly Transport[];
  /** How long one has to open, and then for its first frame, while there is another below it; default 4. */
  stepDownSeconds?: number;
  /** After how long those above the one that worked are tried again; each try in vain doubles it; default 600. */
  stepUpSeconds?: number;
  onStatus?: (status: Status) => void;
  /** For surroundings without a global WebSocket. */
  WebSocket?: new (url: string, protocols: string[]) => unknown;
  /** How many retries are quick; default 3. */
  quickRetries?: number;
  /** The k-th quick retry comes after k times that, less a random part of it; default 5. */
  quickSeconds?: number;
  /** Later retries come after a random half to whole of that, which doubles; default 20. */
  backoffSeconds?: number;
  /** Up to that; default 360. */
  backoffSecondsMax?: number;
  /** After a connection that stood so long retries are quick again; default 60. */
  steadySeconds?: number;
  /** After how many rounds without an answer the status `down` is told; default 1. */
  downAfter?: number;
  /** More reconnections within three minutes are told as `reconnectRateExceeded`; default 15. */
  reconnectsMax?: number;
  /** How many publications may wait for their answers; default 1000. */
  publishQueueMessages?: number;
  /** How much they may take, in bytes; default 1 MiB. */
  publishQueueBytes?: number;
  /** How long a publication is tried; default 60. */
  publishSeconds?: number;
  /** The name within which publications are numbered; default a random one. Never share it between clients. */
  publisher?: string;
}

export type ServerAnswer = readonly (string | Server)[] | { readonly servers: readonly (string | Server)[] };

export interface SubscribeOptions {
  /** The newest n cached messages come first; 0, the default, is the snapshot. */
  history?: number;
  /** At most one message per so many milliseconds, floored to a multiple of 100; 0, the default, is every message. */
  conflation?: number;
  /** The last position seen: of all the subjects, or by subject. */
  since?: Position | Record<string, Position>;
  /** While this client does not keep up: "conflate" merges messages, "close" (default) reconnects when too many wait. */
  slow?: "close" | "conflate";
}

export interface Subscription {
  /** Subjects and patterns. */
  readonly subjects: readonly string[];
  /** Resolves when nothing more can arrive. */
  unsubscribe(subjects?: readonly string[]): Promise<void>;
}

export interface PublishOptions {
  fields?: Record<string, Value>;
  /** Default true. */
  retained?: boolean;
  /** Default "guaranteed". */
  qos?: "guaranteed" | "standard";
  replyTo?: string;
  /** Your own id of the publication; with it, statuses tell what became of it. */
  closure?: string;
  /** No field of before stays in the snapshot. Default false. */
  replace?: boolean;
  /** The context of the trace that it belongs to (W3C Trace Context). */
  traceparent?: string;
}

export interface RemoveOptions {
  /** Default "guaranteed". */
  qos?: "guaranteed" | "standard";
  /** Your own id of the removal; with it, statuses tell what became of it. */
  closure?: string;
}

export interface Presence {
  /** `connections` is 0 for a moment after the last one has gone. */
  readonly users: readonly { readonly user: string; readonly connections: number }[];
  /** Connections without a user. */
  readonly anonymous: number;
  /** Users beyond those listed. */
  readonly more: number;
  /** What other nodes know is not complete at the moment. */
  readonly stale: boolean;
}

/** What became of a pattern that was advertised; `error` is "" for a good one. */
export interface Offer {
  readonly pattern: string;
  readonly error: string;
  readonly reason: string;
}

export interface RequestOptions {
  fields?: Record<string, Value>;
  /** Milliseconds, at most 300,000, from now on, also while there is no connection; default 5000. */
  timeout?: number;
  /** Up to so many replies, told as a list when it is above 1; default 1. */
  replies?: number;
}

export interface Reply {
  readonly content: Value;
  readonly fields: Readonly<Record<string, Value>>;
}

/** A request as its handler gets it. */
export interface Request {
  readonly subject: string;
  readonly content: Value;
  readonly fields: Readonly<Record<string, Value>>;
  /** Who has asked; "" for anonymous. */
  readonly user: string;
  /** Milliseconds after which nobody waits any more. */
  readonly timeout: number;
  /** How many replies are taken. */
  readonly replies: number;
  /** One more reply, before the last one, which the handler returns. */
  reply(content: Value, fields?: Record<string, Value>): void;
  /** Aborted when nobody waits any more. */
  readonly signal: AbortSignal;
}

export type HandlerResult = Value | { content?: Value; fields?: Record<string, Value> } | null | undefined | void;

export interface Responder {
  readonly pattern: string;
  /** Answer nothing more; what came before is answered. */
  close(): Promise<void>;
}

export interface Client {
  readonly state: "connecting" | "connected" | "disconnected" | "paused" | "closed";
  /** The address in use, "" without a connection. */
  readonly url: string;
  readonly via: "" | "direct" | "relay";
  /** What carries the connection or is tried, "" without one. */
  readonly transport: "" | Transport;
  /** "" for anonymous. */
  readonly user: string;
  /** Half of the round trip of the last ping, in milliseconds; null before the first. */
  readonly latency: number | null;
  /** Subjects, or patterns: `*` stands for one segment, `**` as the last one for one or more. */
  subscribe(
    subjects: string | readonly string[],
    handler: (message: Message, subscription: Subscription) => void,
    options?: SubscribeOptions,
  ): Subscription;
  /**
   * Resolves when the server has accepted the message; rejects with a RealtimeError. Without a connection it waits, and
   * a guaranteed message whose answer was lost is sent again, and stored once.
   */
  publish(subject: string, content: Value, options?: PublishOptions): Promise<{ epoch: number; seq: number; closure: string }>;
  /**
   * Remove a subject: its snapshot is gone, its subscribers get a message that is `removed`, and what is published later
   * begins with nothing. Resolves and rejects as publish does.
   */
  remove(subject: string, options?: RemoveOptions): Promise<{ epoch: number; seq: number; closure: string }>;
  /** Who is subscribed to a subject; without one: who is online. */
  presence(subject?: string): Promise<Presence>;
  /**
   * Hear which subjects of these patterns anybody is subscribed to: those that are now, then each change. It lasts over
   * reconnections; a lost connection tells all as not wanted. A later call replaces the patterns, an empty list ends it.
   */
  advertise(
    patterns: string | readonly string[],
    onInterest?: (subjects: readonly string[], wanted: boolean) => void,
  ): Promise<Offer[]>;
  /**
   * Ask whoever responds to the subject; rejects with a RealtimeError: "no_responders" at once, "timeout",
   * "responder_gone", "busy", "denied" and the other codes of docs/reference/protocol.md 4.19, or the responder's own
   * code (`own` is false then); "unknown" when the connection is lost. It is sent once.
   */
  request(subject: string, content: Value, options?: RequestOptions & { replies?: 1 }): Promise<Reply>;
  request(subject: string, content: Value, options: RequestOptions): Promise<Reply[]>;
  /**
   * Answer requests to the subjects of a pattern, as one of all who do; it lasts over reconnections. The handler's
   * result is the reply; a RealtimeError that it throws is an error reply with its status and reason.
   */
  respond(pattern: string, handler: (request: Request) => HandlerResult | Promise<HandlerResult>): Promise<Responder>;
  /** Renew the token of the live connection; the user must be the same. */
  renew(token: string): Promise<{ user: string; expires?: number }>;
  /** Give the connection up and keep subscriptions and publications. */
  pause(): void;
  /** Connect again, also after the server refused for good. */
  resume(): void;
  /** Do not wait any longer for the next attempt: try now, unless it is connected; also as `resume()` does. */
  reconnect(): void;
  /** End for good; publications without an answer are rejected. */
  close(): void;
  /** "status" hears everything. Returns a function that stops it. */
  on(name: "status" | StatusName, listener: (status: Status) => void): () => void;
}

export class RealtimeError extends Error {
  /** A PublishStatus, "not_connected", or a code of docs/reference/protocol.md 4.12. */
  readonly status: string;
  readonly reason: string;
  readonly subject: string;
  /** Of a request: whether the error is the server's own, and no responder's. */
  readonly own?: boolean;
  /** Of a request: the replies that came before. */
  readonly replies?: readonly Reply[];
  constructor(status: string, reason?: string, subject?: string);
}

export function connect(options: Options): Client;
