/**
 * One stream of server-sent events for all topics of the page, read with `fetch`: an EventSource
 * can send no header. A hidden page holds none, because a browser has six connections to a server.
 */

import { signal } from "@preact/signals";

import { parseEvent, type StreamEvent } from "../core/events";
import { API, checkServer, isSignInRenewed, withQuery } from "./api";
import { outage, pauseAfter, recoveries } from "./connection";
import { csrfHeader, session, signInNeeded } from "./session";

/** "idle": the page shows nothing that changes; "polling": the server has no stream left, so views read their data every 5 s. */
type Liveness = "idle" | "connecting" | "live" | "polling" | "reconnecting" | "paused";

type StreamHandler = (event: StreamEvent) => void;

export const liveness = signal<Liveness>("idle");

const POLL_MS = 5000;
/** The server sends a comment every 15 s; a stream that is silent for longer is dead. */
const SILENCE_MS = 20000;
/** The server begins to answer at once. */
const OPEN_MS = 10000;

const handlers = new Map<string, Set<StreamHandler>>();
let current: AbortController | null = null;
let restartTimer = 0;

/** Call `handler` with each event of the topic until the returned function is called. */
export function subscribe(topic: string, handler: StreamHandler): () => void {
  const set = handlers.get(topic) ?? new Set();
  const isNew = set.size === 0;
  set.add(handler);
  handlers.set(topic, set);
  if (isNew) scheduleRestart(20);
  return () => {
    set.delete(handler);
    if (set.size === 0 && handlers.get(topic) === set) {
      handlers.delete(topic);
      scheduleRestart(500);
    }
  };
}

function scheduleRestart(pauseMs: number): void {
  clearTimeout(restartTimer);
  restartTimer = window.setTimeout(() => void restart(), pauseMs);
}

async function restart(): Promise<void> {
  current?.abort();
  current = null;
  if (handlers.size === 0 || session.value === null) {
    liveness.value = "idle";
    return;
  }
  if (document.hidden) {
    liveness.value = "paused";
    return;
  }
  if (liveness.value === "idle") liveness.value = "connecting";
  current = new AbortController();
  await keepOpen(current.signal);
}

/** Open the stream, and open it again after each end, until the signal aborts. */
async function keepOpen(stop: AbortSignal): Promise<void> {
  for (let failures = 0; !stop.aborted; failures += 1) {
    const outcome = await withSlot(() => readOnce(stop));
    if (stop.aborted) return;
    if (outcome === "full") await poll(stop);
    else {
      if (outcome === "ended") failures = 0;
      liveness.value = "reconnecting";
      // The server is away: when it is back, `recoveries` opens the stream.
      if (!(await checkServer())) return;
      await pause(pauseAfter(failures), stop);
    }
  }
}

/**
 * A browser has six connections to a server without HTTP/2, and calls need some of them: so at most
 * three of its windows have a stream, and further ones poll. Plain HTTP from another machine has no
 * locks; then only hidden pages give their streams up.
 */
const SLOTS = ["trainshed.stream.1", "trainshed.stream.2", "trainshed.stream.3"];

async function withSlot(work: () => Promise<Outcome>): Promise<Outcome> {
  const locks = (navigator as Partial<Navigator>).locks;
  if (!locks) return work();
  for (const name of SLOTS) {
    const outcome = await locks.request(name, { ifAvailable: true }, (lock) => (lock ? work() : null));
    if (outcome !== null) return outcome;
  }
  return "full";
}

type Outcome = "full" | "ended" | "failed";

async function readOnce(stop: AbortSignal): Promise<Outcome> {
  const silence = new AbortController();
  let timer = window.setTimeout(() => silence.abort(), OPEN_MS);
  const heard = (): void => {
    clearTimeout(timer);
    timer = window.setTimeout(() => silence.abort(), SILENCE_MS);
  };
  try {
    const response = await openStream(AbortSignal.any([stop, silence.signal]));
    if (response.status === 503 || response.status === 429 || response.status === 404) return "full";
    if (await isSignInRenewed(response.status)) return "ended";
    if (!response.ok || !response.body) return "failed";
    heard();
    await readEvents(response.body, heard);
    return "ended";
  } catch {
    return "failed";
  } finally {
    clearTimeout(timer);
  }
}

function openStream(stop: AbortSignal): Promise<Response> {
  const headers = { Accept: "text/event-stream", ...csrfHeader() };
  const path = withQuery(`${API}/stream`, { topic: [...handlers.keys()] });
  return fetch(path, { headers, signal: stop, cache: "no-store" });
}

async function readEvents(body: ReadableStream<Uint8Array>, heard: () => void): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    heard();
    const blocks = (rest + part.value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) dispatch(parseEvent(block));
  }
}

/** Give an event to the handlers of its topic, "ready" to all; "resync" is a "ready" of one topic. */
function dispatch(event: StreamEvent | null): void {
  if (event === null) return;
  if (event.type === "ready") liveness.value = "live";
  if (event.type === "away") {
    liveness.value = "reconnecting";
    void checkServer();
  }
  const isForAll = event.type === "ready";
  const given = event.type === "resync" ? { type: "ready", data: null } : event;
  for (const [topic, set] of handlers) {
    if (isForAll || event.topic === topic) for (const handler of [...set]) handler(given);
  }
}

/** Wait 5 s, and let all views read again; then the page asks for a stream again. */
async function poll(stop: AbortSignal): Promise<void> {
  liveness.value = "polling";
  await pause(POLL_MS, stop);
  if (stop.aborted || outage.value !== null || signInNeeded.peek()) return;
  for (const set of handlers.values()) for (const handler of [...set]) handler({ type: "ready", data: null });
}

function pause(milliseconds: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      stop.removeEventListener("abort", end); // a page that polls for days waits often
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    stop.addEventListener("abort", end);
  });
}

document.addEventListener("visibilitychange", () => scheduleRestart(document.hidden ? 2000 : 0));
recoveries.subscribe((count) => count > 0 && scheduleRestart(0));
session.subscribe((value) => value && scheduleRestart(0));
