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
}

export type StatusName =
  | "connecting" | "connected" | "disconnected" | "down" | "reconnectRateExceeded" | "paused" | "closed"
  | "subscribed" | "granted" | "denied" | "revoked" | "notReady" | "refused" | "limited" | "notAdvertised"
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

export interface Options {
  /** One server or several; may be left out when there is a `serversUrl`. */
  urls?: string | Server | readonly (string | Server)[];
  /** Where the list of servers is had before each reconnection: an address such as "/api/servers/", or a function. */
  serversUrl?: string | (() => ServerAnswer | Promise<ServerAnswer>);
  /** A token, or a function that gets one; an error it throws with `final: true` ends the client's attempts. */
  token?: string | (() => Promise<string> | string);
  /** Default "msgpack". */
  form?: "msgpack" | "json";
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

export interface Client {
  readonly state: "connecting" | "connected" | "disconnected" | "paused" | "closed";
  /** The address in use, "" without a connection. */
  readonly url: string;
  readonly via: "" | "direct" | "relay";
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
  /** Renew the token of the live connection; the user must be the same. */
  renew(token: string): Promise<{ user: string; expires?: number }>;
  /** Give the connection up and keep subscriptions and publications. */
  pause(): void;
  /** Connect again, also after the server refused for good. */
  resume(): void;
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
}

export function connect(options: Options): Client;
