/** Types of the JavaScript client; docs/javascript.md is its guide. */

/** Text, or binary. */
export type Value = string | Uint8Array;

/** The place of a message in its subject. */
export type Position = readonly [epoch: number, seq: number];

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
  readonly asOf: unknown;
}

export type StatusName =
  | "connecting" | "connected" | "disconnected" | "paused" | "closed"
  | "subscribed" | "granted" | "denied" | "revoked" | "notReady" | "gap" | "lagging" | "caughtUp" | "refused"
  | "latency" | "expiring" | "notice" | "error";

/** What happened; which keys are there depends on the name (docs/javascript.md lists them). */
export interface Status {
  readonly name: StatusName;
  readonly url?: string;
  readonly via?: "direct" | "relay";
  readonly user?: string;
  readonly server?: string;
  readonly subject?: string;
  readonly recovery?: "" | "recovered" | "resynchronised";
  readonly code?: number | string;
  readonly codeName?: string;
  readonly reason?: string;
  /** Whether the client gave up; `resume()` tries again. */
  readonly final?: boolean;
  readonly retryMs?: number;
  readonly ms?: number;
  readonly clockOffsetMs?: number;
  readonly expires?: number;
}

export interface Options {
  /** In the order to try. */
  urls: string | readonly string[];
  /** A token, or a function that gets one; an error it throws with `final: true` ends the client's attempts. */
  token?: string | (() => Promise<string> | string);
  /** Default "msgpack". */
  form?: "msgpack" | "json";
  onStatus?: (status: Status) => void;
  /** For surroundings without a global WebSocket. */
  WebSocket?: new (url: string, protocols: string[]) => unknown;
}

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
  /** Your own id of the publication; by default one is made. */
  closure?: string;
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
  subscribe(
    subjects: string | readonly string[],
    handler: (message: Message, subscription: Subscription) => void,
    options?: SubscribeOptions,
  ): Subscription;
  /** Resolves when the server has accepted the message; rejects with a RealtimeError. */
  publish(subject: string, content: Value, options?: PublishOptions): Promise<{ epoch: number; seq: number; closure: string }>;
  /** Renew the token of the live connection; the user must be the same. */
  renew(token: string): Promise<{ user: string; expires?: number }>;
  pause(): void;
  resume(): void;
  close(): void;
  /** "status" hears everything. Returns a function that stops it. */
  on(name: "status" | StatusName, listener: (status: Status) => void): () => void;
}

export class RealtimeError extends Error {
  readonly status: string;
  readonly reason: string;
  readonly subject: string;
}

export function connect(options: Options): Client;
