/** Calls of the native API: one way for every page, with a time limit and one kind of error. */

import { reportAnswer, reportOutage, type Probed } from "./connection";
import { acceptSession, askForSignIn, csrfHeader, session } from "./session";
import type { Session } from "./types";

export const API = "/trainshed/v1";

/** A refusal of the server, or a call that got no answer (`code` "UNAVAILABLE", `status` 0). */
export class ApiError extends Error {
  /** `code`: the name of the google.rpc code, such as "NOT_FOUND". */
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }

  get isAway(): boolean {
    return this.status === 0;
  }
}

export type QueryValue = string | number | boolean | null | undefined | readonly string[];

interface CallOptions {
  query?: Record<string, QueryValue>;
  /** Sent as JSON. */
  body?: unknown;
  signal?: AbortSignal;
  /** Milliseconds until the call counts as unanswered; 30,000 by default. */
  timeoutMs?: number;
  /** Do not ask the user to sign in when the answer is 401. */
  noSignIn?: boolean;
}

/** Return `path` with the query; arrays are repeated, null, undefined and "" left out. */
export function withQuery(path: string, query: Record<string, QueryValue> = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    for (const item of Array.isArray(value) ? value : [value]) parameters.append(name, String(item));
  }
  const text = parameters.toString();
  return text ? `${path}?${text}` : path;
}

function headersOf(options: CallOptions): Record<string, string> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  return { ...headers, ...csrfHeader() };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

/** Return the refusal of a response: the google.rpc.Status in its body, or its HTTP status. */
function errorOf(response: Response, text: string): ApiError {
  const body = parse(text) as { error?: Record<string, unknown> } | null;
  const error = body?.error ?? {};
  const message = typeof error.message === "string" ? error.message : response.statusText;
  const code = typeof error.status === "string" ? error.status : `HTTP_${response.status}`;
  return new ApiError(response.status, code, message || `HTTP status ${response.status}`);
}

const UNAVAILABLE = 503;
/** A slow call may take so long, while the server answers others. */
const CALL_MS = 30000;
/** A server that is being restarted accepts connections and answers later: so every wait has a limit. */
const PROBE_MS = 3000;
/** Whenever a call has waited for this long, the page asks whether the server answers at all. */
const SLOW_MS = 5000;

async function probe(): Promise<Probed> {
  try {
    const response = await fetch(`${API}/signin`, { headers: headersOf({}), signal: AbortSignal.timeout(PROBE_MS), cache: "no-store" });
    if (response.status < 500) return { isThere: true };
    return { isThere: false, message: errorOf(response, await response.text()).message };
  } catch {
    return { isThere: false };
  }
}

/** Ask whether the server can answer, and show the outage if it cannot. Returns whether it can. */
export async function checkServer(): Promise<boolean> {
  const probed = await probe();
  if (probed.isThere) reportAnswer();
  else reportOutage(probe, probed.message);
  return probed.isThere;
}

/** Ask about the server as long as a call waits, and end the call when the server does not answer. */
function watchServer(gone: AbortController): () => void {
  const timer = setInterval(async () => {
    if (!(await checkServer())) gone.abort();
  }, SLOW_MS);
  return () => clearInterval(timer);
}

/** Do a step of a call; one that the network breaks is a server that does not answer. Throws ApiError. */
async function overNetwork<T>(step: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (signal?.aborted) throw error;
    if (error instanceof DOMException && error.name === "TimeoutError") void checkServer();
    else reportOutage(probe);
    throw new ApiError(0, "UNAVAILABLE", "the server does not answer");
  }
}

async function fetchOnce(method: string, path: string, options: CallOptions): Promise<Response> {
  const gone = new AbortController();
  const limit = AbortSignal.any([AbortSignal.timeout(options.timeoutMs ?? CALL_MS), gone.signal]);
  const endWatch = watchServer(gone);
  const request = {
    method,
    headers: headersOf(options),
    body: options.body === undefined ? undefined : JSON.stringify(options.body),
    signal: options.signal ? AbortSignal.any([limit, options.signal]) : limit,
    cache: "no-store",
  } as const;
  try {
    const response = await overNetwork(() => fetch(API + withQuery(path, options.query), request), options.signal);
    // Without its database a server refuses all calls; another refusal concerns one call.
    if (response.status === UNAVAILABLE) void checkServer();
    else reportAnswer();
    return response;
  } finally {
    endWatch();
  }
}

/**
 * Return whether a refused call is worth sending again: the user has signed in again, or another tab
 * has. A browser that has lost its cookie gets a 403, so that status needs a look at the sign-in.
 */
export async function isSignInRenewed(status: number): Promise<boolean> {
  const own = session.peek();
  if ((status !== 401 && status !== 403) || own === null || own.anonymous) return false;
  const response = await fetchOnce("GET", "/signin", {});
  if (response.status === 401) {
    await askForSignIn();
    return true;
  }
  if (!response.ok) return false;
  const present = (await response.json()) as Session;
  if (present.csrf === own.csrf) return false;
  acceptSession(present);
  return true;
}

/**
 * Send a call and return its successful response, whose body the caller reads.
 * At a 401 the user signs in over the page, and the call is sent again. Throws ApiError.
 */
async function fetchApi(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  let response = await fetchOnce(method, path, options);
  if (!options.noSignIn && (await isSignInRenewed(response.status))) {
    response = await fetchOnce(method, path, options);
  }
  if (!response.ok) throw errorOf(response, await textOf(response, options));
  return response;
}

const textOf = (response: Response, options: CallOptions): Promise<string> => overNetwork(() => response.text(), options.signal);

/** Send a call below /trainshed/v1 and return its JSON answer. Throws ApiError. */
export async function callApi<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const text = await textOf(await fetchApi(method, path, options), options);
  return (text ? JSON.parse(text) : {}) as T;
}

/** Call `onLine` with each JSON line of a response, until it ends or `signal` aborts. Throws ApiError. */
export async function readLines<T>(
  path: string,
  options: CallOptions,
  onLine: (line: T) => void,
): Promise<void> {
  const response = await fetchApi("GET", path, options);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const part = await overNetwork(async () => reader?.read(), options.signal);
    if (!part || part.done) break;
    const lines = (rest + part.value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line) onLine(JSON.parse(line) as T);
  }
  if (rest) onLine(JSON.parse(rest) as T);
}

/** Start the download of a native path: a link can send no header, so it carries a ticket of 60 s. */
export async function download(path: string): Promise<void> {
  const ticket = await callApi<{ path: string }>("POST", "/downloads", { body: { path: API + path } });
  const link = document.createElement("a");
  link.href = ticket.path;
  link.download = "";
  link.click();
}
