/**
 * A search over the whole log. It begins at the reader, so that the next hit comes first, and goes
 * on with the lines before. Hits arrive while the server searches, and leaving stops it.
 */

import { signal } from "@preact/signals";

import { formatCount } from "../../core/format";
import { compareStamps } from "../../core/viewport";
import type { LogRow } from "./rows";

/** What a user searches for. */
export interface LogQuery {
  readonly text: string;
  readonly isExpression: boolean;
  readonly matchesCase: boolean;
}

/** The reader's line: its number, and its share of the log. */
interface SearchStart {
  readonly number: number;
  readonly share: number;
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

/** The end of an answer; a search from the line `next` goes on where one of a minute, or with too many hits, has ended. */
interface SearchEnd {
  readonly done: true;
  readonly hits: number;
  readonly complete: boolean;
  readonly next?: number | null;
}

/** One line of the answer of `logs:search`. */
export type SearchLine = Hit | { readonly searched: number } | SearchEnd;

/** Read hits from the line `from` on. */
export type ReadHits = (query: LogQuery, from: number, limit: number, onLine: (line: SearchLine) => void, stop: AbortSignal) => Promise<void>;

/** The most hits of one search: 10,000 rows of 100 bytes stay below a few megabytes. */
export const HITS_MAX = 10000;
/** Hits are shown in steps of this many milliseconds, so that a million do not stop the page. */
const STEP_MS = 100;

export class LogSearch {
  readonly query = signal<LogQuery | null>(null);
  /** The hits in the order of the log. */
  readonly hits = signal<readonly Hit[]>([]);
  /** The searched share of the log, 0 to 1; null when no search runs. */
  readonly searched = signal<number | null>(null);
  /** Whether all lines were searched; false also if there are more hits than `HITS_MAX`. */
  readonly complete = signal(false);
  /** Whether the lines behind the reader were searched. */
  readonly hasWrapped = signal(false);
  /** The index of the hit before which others are left out, because there are too many; null if none is. */
  readonly gap = signal<number | null>(null);
  /** The number of the line at which the search began. */
  readonly begin = signal(1);
  readonly error = signal<unknown>(null);
  private stop = new AbortController();

  constructor(private readonly read: ReadHits) {}

  /** Search all lines, those from `start` on first; `null` ends the search. */
  async start(query: LogQuery | null, start: SearchStart = { number: 1, share: 0 }): Promise<void> {
    this.stop.abort();
    this.stop = new AbortController();
    this.query.value = query;
    this.hits.value = [];
    this.error.value = null;
    this.complete.value = false;
    this.hasWrapped.value = false;
    this.gap.value = null;
    this.begin.value = start.number;
    this.searched.value = query ? 0 : null;
    if (query) await this.run(query, start, this.stop.signal);
  }

  /** Stop the search; the hits stay. */
  cancel(): void {
    this.stop.abort();
    this.searched.value = null;
  }

  private async run(query: LogQuery, start: SearchStart, stop: AbortSignal): Promise<void> {
    const behind = new Gathering(stop, (hits, share) => this.take(stop, hits, share - start.share));
    let isWhole = await this.readPart(query, start.number, HITS_MAX, behind);
    const own = behind.hits;
    let gap = own.length;
    if (isWhole && start.number > 1 && !stop.aborted) {
      this.hasWrapped.value = true;
      const before = new Gathering(stop, (hits, share) => this.take(stop, hits && [...hits, ...own], 1 - start.share + share), start);
      isWhole = await this.readPart(query, 1, Math.max(1, HITS_MAX - own.length), before);
      behind.hits = [...before.hits, ...own];
      gap = before.hits.length;
    }
    if (stop.aborted) return;
    this.hits.value = behind.hits;
    this.complete.value = isWhole;
    this.gap.value = isWhole ? null : gap;
    this.hasWrapped.value = true;
    this.searched.value = null;
  }

  /** Read the hits of a part of the log; returns whether the part was searched to its end. */
  private async readPart(query: LogQuery, from: number, limit: number, part: Gathering): Promise<boolean> {
    try {
      for (let next: number | null = from; next !== null && part.hits.length < limit && !part.stop.signal.aborted; ) {
        part.next = null;
        await this.read(query, next, limit - part.hits.length, part.onLine, part.stop.signal);
        next = part.next;
      }
    } catch (error) {
      if (!part.stop.signal.aborted) this.error.value = error;
    }
    return part.isWhole;
  }

  private take(stop: AbortSignal, hits: readonly Hit[] | null, share: number): void {
    if (stop.aborted) return;
    this.searched.value = Math.min(1, Math.max(0, share));
    if (hits) this.hits.value = hits;
  }
}

/** Gathers the hits of a part of the log, and shows them in steps. */
class Gathering {
  hits: readonly Hit[] = [];
  /** Whether the part was searched to its end. */
  isWhole = false;
  /** The line from which another search goes on; null if none does. */
  next: number | null = null;
  readonly stop = new AbortController();
  private readonly gathered: Hit[] = [];
  private shownAt = 0;
  private shown = 0;
  private share = 0;

  /** `until`: where the part ends. */
  constructor(outer: AbortSignal, readonly onStep: (hits: readonly Hit[] | null, share: number) => void, readonly until?: SearchStart) {
    outer.addEventListener("abort", () => this.stop.abort(), { once: true });
  }

  readonly onLine = (line: SearchLine): void => {
    if (this.stop.signal.aborted) return;
    if ("searched" in line) this.share = line.searched;
    else if ("done" in line) [this.isWhole, this.next] = [line.complete, line.next ?? null];
    else if (this.isBehindEnd(line)) return this.finish();
    else this.gathered.push(line);
    this.step();
    if (this.until && this.share > this.until.share + 0.02) this.finish();
  };

  private isBehindEnd(hit: Hit): boolean {
    return this.until !== undefined && hit.n !== null && hit.n >= this.until.number;
  }

  private step(): void {
    const isDue = this.gathered.length <= 1 || performance.now() - this.shownAt > STEP_MS;
    const isNew = this.gathered.length > this.shown && isDue;
    if (isNew) {
      this.shownAt = performance.now();
      this.shown = this.gathered.length;
    }
    this.hits = this.gathered;
    this.onStep(isNew ? [...this.gathered] : null, this.share);
  }

  private finish(): void {
    this.isWhole = true;
    this.hits = this.gathered;
    this.stop.abort();
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

/**
 * Return which lines with a hit are not listed; null if all are. `gap` is the index before which
 * hits are left out; a search that began at the line `begin` and is cut read no line before it.
 */
export function describeUnlisted(hits: readonly Hit[], gap: number | null, begin: number): string | null {
  const before = gap === null ? null : hits[gap - 1]?.n ?? null;
  if (gap === null || before === null) return null;
  const after = hits[gap]?.n ?? null;
  const behind = begin > 1 ? `those behind line ${formatCount(before)} and before line ${formatCount(begin)}` : `those behind line ${formatCount(before)}`;
  const unlisted = after === null ? behind : `those between line ${formatCount(before)} and line ${formatCount(after)}`;
  return `More lines have a hit than the ${formatCount(hits.length)} listed: ${unlisted} are not listed.`;
}
