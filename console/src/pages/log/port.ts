/** The native routes of a job's log, as the view uses them. */

import { callApi, download, readLines, withQuery } from "../../net/api";
import type { ReadWindow, WindowQuery } from "./feed";
import type { LogFilter, LogRow, LogWindow } from "./rows";
import { readRows } from "./rows";
import { HITS_MAX, type ReadHits, type SearchLine } from "./search";

/** A search of a long log takes seconds, and sends its progress meanwhile. */
const SEARCH_TIMEOUT_MS = 120000;

export interface LogPort {
  readonly window: ReadWindow;
  readonly hits: ReadHits;
  /** Return the few rows of a window of another filter. */
  readonly rowsOf: (query: WindowQuery, filter: LogFilter) => Promise<readonly LogRow[]>;
  /** Start the download of the lines that match the filter. */
  readonly save: (format: "text" | "jsonl", times: boolean) => Promise<void>;
}

/** Return the path of a job's resource below /trainshed/v1. */
export function jobResource(project: string, job: string): string {
  return `/projects/${encodeURIComponent(project)}/jobs/${encodeURIComponent(job)}`;
}

/** Return the routes of the lines that match a filter. */
export function logPort(project: string, job: string, filter: LogFilter): LogPort {
  const base = `${jobResource(project, job)}/logs`;
  const window: ReadWindow = (query, signal) =>
    callApi<LogWindow>("GET", `${base}:window`, { query: { ...query, ...filter }, signal });
  return {
    window,
    hits: (query, limit, onLine, signal) => readLines<SearchLine>(`${base}:search`, {
      query: { q: query.text, regex: query.isExpression || null, case: query.matchesCase || null, from: query.from ?? null,
        limit: Math.min(limit, HITS_MAX), ...filter },
      signal, timeoutMs: SEARCH_TIMEOUT_MS,
    }, onLine),
    rowsOf: async (query, other) =>
      readRows((await callApi<LogWindow>("GET", `${base}:window`, { query: { ...query, ...other } })).lines),
    save: (format, times) =>
      download(withQuery(`${base}:download`, { format, times: times || null, ...filter })),
  };
}
