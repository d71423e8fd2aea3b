/** The native routes of a job's log, as the view uses them. */

import { jobResource } from "../../core/route";
import { callApi, download, readLines, withQuery } from "../../net/api";
import type { LogWindow } from "../../net/types";
import { FIRST_COUNT, type ReadWindow, type WindowQuery } from "./feed";
import type { LogFilter, LogRow } from "./rows";
import { readRows } from "./rows";
import { HITS_MAX, type ReadHits, type SearchLine } from "./search";

/** A search of a long log takes seconds, and sends its progress meanwhile. */
const SEARCH_TIMEOUT_MS = 120000;

/** After this many milliseconds the end of a growing log is asked for again. */
const EARLY_MS = 2000;

export interface LogPort {
  readonly window: ReadWindow;
  readonly hits: ReadHits;
  /** Return the few rows of a window of another filter. */
  readonly rowsOf: (query: WindowQuery, filter: LogFilter) => Promise<readonly LogRow[]>;
  /** Start the download of the lines that match the filter. */
  readonly save: (format: "text" | "jsonl", times: boolean) => Promise<void>;
}

/** The end of a log that was asked for before the view of the log exists; at most one. */
let early: { readonly path: string; readonly answer: Promise<LogWindow> } | null = null;

/** Ask for the end of a log while the page still reads the job. */
export function readEndEarly(project: string, job: string): void {
  const path = withQuery(`${jobResource(project, job)}/logs:window`, { end: true, count: FIRST_COUNT });
  const answer = callApi<LogWindow>("GET", path);
  answer.catch(() => undefined); // the view reports the error
  early = { path, answer };
  setTimeout(() => (early = early?.answer === answer ? null : early), EARLY_MS);
}

function takeEarly(path: string): Promise<LogWindow> | null {
  const answer = early?.path === path ? early.answer : null;
  early = null;
  return answer;
}

/** Return the routes of the lines that match a filter. */
export function logPort(project: string, job: string, filter: LogFilter): LogPort {
  const base = `${jobResource(project, job)}/logs`;
  const window: ReadWindow = (query, signal) => {
    const options = { query: { ...query, ...filter }, signal };
    return takeEarly(withQuery(`${base}:window`, options.query)) ?? callApi<LogWindow>("GET", `${base}:window`, options);
  };
  return {
    window,
    hits: (query, from, limit, onLine, signal) => readLines<SearchLine>(`${base}:search`, {
      query: { q: query.text, regex: query.isExpression || null, case: query.matchesCase || null, from: from > 1 ? from : null,
        limit: Math.min(limit, HITS_MAX), ...filter },
      signal, timeoutMs: SEARCH_TIMEOUT_MS,
    }, onLine),
    rowsOf: async (query, other) =>
      readRows((await callApi<LogWindow>("GET", `${base}:window`, { query: { ...query, ...other } })).lines),
    save: (format, times) =>
      download(withQuery(`${base}:download`, { format, times: times || null, ...filter })),
  };
}
