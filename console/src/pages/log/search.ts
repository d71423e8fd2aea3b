/**
 * A search over the whole log: hits arrive while the server searches, and leaving stops it.
 * The page holds the first hits of the log; the position of the reader decides which is next.
 */

import { signal } from "@preact/signals";

import { compareStamps } from "../../core/viewport";
import type { LogRow } from "./rows";

/** What a user searches for. */
export interface LogQuery {
  readonly text: string;
  readonly isExpression: boolean;
  readonly matchesCase: boolean;
  /** The number of the line where the search begins; absent for the first one. */
  readonly from?: number | undefined;
}

export interface Hit {
  readonly n: number | null;
  readonly stamp: string;
  readonly task: string;
  readonly severity: string;
  readonly text: string;
  readonly columns: readonly (readonly [number, number])[];
  readonly cutBytes?: number | null;
}

/** One line of the answer of `logs:search`. */
export type SearchLine = Hit | { readonly searched: number } | { readonly done: true; readonly hits: number; readonly complete: boolean };

export type ReadHits = (query: LogQuery, limit: number, onLine: (line: SearchLine) => void, stop: AbortSignal) => Promise<void>;

/** The most hits of one search: 10,000 rows of 100 bytes stay below a few megabytes. */
export const HITS_MAX = 10000;
/** Hits are shown in steps of this many milliseconds, so that a million do not stop the page. */
const STEP_MS = 100;

export class LogSearch {
  readonly query = signal<LogQuery | null>(null);
  readonly hits = signal<readonly Hit[]>([]);
  /** The searched share of the log, 0 to 1; null when no search runs. */
  readonly searched = signal<number | null>(null);
  /** Whether the search reached the end of the log. */
  readonly complete = signal(false);
  readonly error = signal<unknown>(null);
  private readonly read: ReadHits;
  private stop = new AbortController();

  constructor(read: ReadHits) {
    this.read = read;
  }

  /** Search from the beginning; `null` ends the search. */
  async start(query: LogQuery | null): Promise<void> {
    this.stop.abort();
    this.stop = new AbortController();
    this.query.value = query;
    this.hits.value = [];
    this.error.value = null;
    this.complete.value = false;
    this.searched.value = query ? 0 : null;
    if (query) await this.run(query, this.stop.signal);
  }

  /** Stop the search; the hits stay. */
  cancel(): void {
    this.stop.abort();
    this.searched.value = null;
  }

  private async run(query: LogQuery, stop: AbortSignal): Promise<void> {
    const gathered: Hit[] = [];
    let shownAt = 0;
    const show = (): void => {
      shownAt = performance.now();
      this.hits.value = [...gathered];
    };
    const onLine = (line: SearchLine): void => {
      if (stop.aborted) return;
      if ("searched" in line) this.searched.value = line.searched;
      else if ("done" in line) this.complete.value = line.complete;
      else gathered.push(line);
      const isDue = gathered.length <= 1 || performance.now() - shownAt > STEP_MS;
      if (gathered.length > this.hits.peek().length && isDue) show();
    };
    try {
      await this.read(query, HITS_MAX, onLine, stop);
    } catch (error) {
      if (!stop.aborted) this.error.value = error;
    }
    if (stop.aborted) return;
    show();
    this.searched.value = null;
  }
}

/** Return the index of the hit after (`step` 1) or before (-1) a stamp; wraps around; -1 without hits. */
export function nextHit(hits: readonly Hit[], stamp: string | null, step: 1 | -1): number {
  if (hits.length === 0) return -1;
  if (stamp === null) return step === 1 ? 0 : hits.length - 1;
  if (step === 1) {
    const next = hits.findIndex((hit) => compareStamps(hit.stamp, stamp) > 0);
    return next < 0 ? 0 : next;
  }
  const before = hits.findLastIndex((hit) => compareStamps(hit.stamp, stamp) < 0);
  return before < 0 ? hits.length - 1 : before;
}

/** Return hits as rows, for the view of only the hits. */
export function hitRows(hits: readonly Hit[]): readonly LogRow[] {
  return hits.map((hit) => ({
    key: hit.n === null ? `${hit.stamp} ${hit.task}` : hit.stamp, number: hit.n, stamp: hit.stamp, task: hit.task,
    severity: hit.severity, text: hit.text, cut: hit.cutBytes ?? 0,
  }));
}
