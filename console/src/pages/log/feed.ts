/**
 * The buffer of a log's rows around the reader. It reads windows of lines, extends itself by
 * stamps before the reader reaches its ends, and follows the end of a growing log. Stamps stay
 * when old lines are removed; positions do not, so they serve only to show where the reader is.
 */

import { batch, signal } from "@preact/signals";

import { compareStamps, mergeRows, trimRows } from "../../core/viewport";
import type { LogAttempt, LogWindow } from "../../net/schemas";
import { countNumbered, readRows, type LogRow } from "./rows";

/** A line to show: the last one, a number, a position among the matching lines, or a stamp. */
export type Target =
  | { readonly end: true }
  | { readonly line: number }
  | { readonly row: number }
  | { readonly stamp: string };

/** A window of `count` lines, `before` of which precede the target. */
export type WindowQuery = Target & { readonly count: number; readonly before?: number };

export type ReadWindow = (query: WindowQuery, stop: AbortSignal) => Promise<LogWindow>;

/** Lines of the first request of a jump, which a user waits for, and those before its target. */
export const FIRST_COUNT = 200;
const FIRST_BEFORE = 60;
/** Lines of a request before the reader needs them. */
const COUNT = 500;
/** A search for the first line of a rare task ends after so many requests of a few seconds. */
const TURNS_MAX = 200;
/** The most lines of one request. */
const COUNT_MAX = 2000;

export class LogFeed {
  readonly rows = signal<readonly LogRow[]>([]);
  /** The number of lines that match; null while unknown, and for a study. */
  readonly total = signal<number | null>(null);
  readonly exact = signal(true);
  readonly tasks = signal<readonly string[]>([]);
  readonly attempts = signal<readonly LogAttempt[]>([]);
  readonly prunedBefore = signal<string | null>(null);
  /** The position of the first row with a number, from 1. */
  readonly first = signal(1);
  /** Whether the lines have positions: those of a study have none. */
  readonly hasPositions = signal(true);
  /** True once the first window was read. */
  readonly ready = signal(false);
  readonly error = signal<unknown>(null);
  /** Whether the rows reach the log's first and last line. */
  readonly hasStart = signal(false);
  readonly hasEnd = signal(false);
  private stop = new AbortController();
  private readonly busy = { above: false, below: false };
  private isBehind = false;
  /** Where the server stopped for lack of time: it has not examined the lines before and from these stamps. */
  private unread: { before: string | null; from: string | null } = { before: null, from: null };

  constructor(private readonly read: ReadWindow) {}

  /** Replace the rows by those around a target; returns the row to show, null if none or overtaken. */
  async show(target: Target): Promise<LogRow | null> {
    this.restart();
    const isEnd = "end" in target;
    const before = isEnd ? {} : { before: FIRST_BEFORE };
    const answer = await this.fetchAny({ ...target, ...before, count: FIRST_COUNT }, isEnd);
    if (answer === null) return null;
    const rows = readRows(answer.lines);
    batch(() => {
      this.take(answer);
      this.rows.value = rows;
      this.first.value = answer.first ?? 1;
      this.hasEnd.value = isEnd || this.isLast(answer, rows, FIRST_COUNT);
      this.hasStart.value = this.isFirst(answer);
      this.ready.value = true;
    });
    return isEnd ? rows[rows.length - 1] ?? null : findTarget(rows, target, this.first.value);
  }

  /** Read lines above the first row. */
  async extendAbove(): Promise<void> {
    const first = this.rows.value[0];
    if (!first || this.busy.above || this.hasStart.value) return;
    const answer = await this.extend("above", { stamp: this.unread.before ?? first.stamp, before: COUNT, count: COUNT + 1 });
    if (answer === null) return;
    this.unread.before = answer.unreadBefore ?? null;
    const length = this.rows.value.length;
    batch(() => {
      this.rows.value = mergeRows(this.rows.value, readRows(answer.lines));
      this.first.value = answer.first ?? 1;
      this.hasStart.value = this.isFirst(answer) || (this.unread.before === null && this.rows.value.length === length);
    });
  }

  /** Read lines below the last row. */
  async extendBelow(count = COUNT): Promise<void> {
    if (this.rows.value.length === 0 || this.busy.below) return;
    const answer = await this.extend("below", { ...(this.unread.from ? { stamp: this.unread.from } : this.lastTarget()), count });
    if (answer === null) return;
    this.unread.from = answer.unreadFrom ?? null;
    const rows = readRows(answer.lines);
    const length = this.rows.value.length;
    batch(() => {
      this.rows.value = mergeRows(this.rows.value, rows);
      this.hasEnd.value = this.isLast(answer, rows, count);
    });
    const isMore = this.isBehind || (count === COUNT_MAX && !this.hasEnd.value);
    this.isBehind = false;
    if (isMore && this.rows.value.length > length) await this.extendBelow(COUNT_MAX);
  }

  /** The log may have more lines: a follower gets them now, other readers when they come near. */
  async announce(total: number | null, isFollowing: boolean): Promise<void> {
    const before = this.total.value;
    this.error.value = null;
    if (!this.ready.value) return;
    const isFar = total !== null && before !== null && total - before > 2 * COUNT_MAX;
    if (this.rows.value.length === 0 || (isFollowing && isFar)) await this.show({ end: true });
    else if (this.busy.below) this.isBehind = true;
    else if (isFollowing) await this.extendBelow(COUNT_MAX);
    else {
      if (total !== null && before !== null) this.total.value = Math.max(total, before);
      this.hasEnd.value = false;
    }
  }

  /** Forget rows that are far from the index `center`. */
  forget(center: number): void {
    const rows = this.rows.value;
    const trimmed = trimRows(rows, center);
    if (trimmed.length === rows.length) return;
    const start = rows.indexOf(trimmed[0] as LogRow);
    batch(() => {
      if (start > 0) this.hasStart.value = false;
      if (start + trimmed.length < rows.length) this.hasEnd.value = false;
      this.first.value += countNumbered(rows, start);
      this.rows.value = trimmed;
    });
  }

  /** Return the position of the row at an index, from 1. */
  positionOf(index: number): number {
    return this.first.value + countNumbered(this.rows.value, index);
  }

  /** Stop all reads. */
  dispose(): void {
    this.stop.abort();
  }

  /** Return the last line: a sentence of the service may be later than lines yet to be written. */
  private lastTarget(): Target {
    const rows = this.rows.value;
    const last = this.hasPositions.value ? rows.findLast((row) => row.number !== null) : rows[rows.length - 1];
    return last ? { stamp: last.stamp } : { line: 1 };
  }

  private restart(): void {
    this.stop.abort();
    this.stop = new AbortController();
    this.busy.above = false;
    this.busy.below = false;
    this.isBehind = false;
  }

  private async extend(side: "above" | "below", query: WindowQuery): Promise<LogWindow | null> {
    const stop = this.stop.signal;
    this.busy[side] = true;
    const answer = await this.fetch(query, stop);
    if (stop.aborted) return null;
    this.busy[side] = false;
    if (answer !== null) this.take(answer);
    return answer;
  }

  private async fetch(query: WindowQuery, stop: AbortSignal): Promise<LogWindow | null> {
    try {
      const answer = await this.read(query, stop);
      if (stop.aborted) return null;
      this.error.value = null;
      return answer;
    } catch (error) {
      if (!stop.aborted) this.error.value = error;
      return null;
    }
  }

  /** Read a window; if the server's time was over before it came to a line, go on where it stopped. */
  private async fetchAny(query: WindowQuery, isEnd: boolean): Promise<LogWindow | null> {
    const stop = this.stop.signal;
    let answer = await this.fetch(query, stop);
    for (let turn = 0; turn < TURNS_MAX && answer !== null && answer.lines.length === 0; turn += 1) {
      const stamp = isEnd ? answer.unreadBefore : answer.unreadFrom ?? answer.unreadBefore;
      if (answer.exact && !stamp) break;
      answer = await this.fetch(stamp ? { stamp, before: stamp === answer.unreadFrom ? 0 : FIRST_COUNT - 1, count: FIRST_COUNT } : query, stop);
    }
    this.unread = { before: answer?.unreadBefore ?? null, from: answer?.unreadFrom ?? null };
    return answer;
  }

  private isFirst(answer: LogWindow): boolean {
    return this.hasPositions.value && (answer.first ?? 1) <= 1;
  }

  private isLast(answer: LogWindow, rows: readonly LogRow[], count: number): boolean {
    if (!this.hasPositions.value) return rows.length < count && !answer.unreadFrom;
    return (answer.first ?? 1) + countNumbered(rows, rows.length) > (answer.total ?? 0);
  }

  private take(answer: LogWindow): void {
    this.total.value = answer.total ?? null;
    this.hasPositions.value = (answer.total ?? null) !== null;
    this.exact.value = answer.exact;
    this.prunedBefore.value = answer.prunedBefore ?? null;
    this.attempts.value = answer.attempts;
    if (answer.tasks.join() !== this.tasks.value.join()) this.tasks.value = answer.tasks;
  }
}

/** Return the row of a target in a window that begins at the position `first`; else the last row. */
function findTarget(rows: readonly LogRow[], target: Target, first: number): LogRow | null {
  const last = rows[rows.length - 1] ?? null;
  if ("stamp" in target) return rows.find((row) => compareStamps(row.stamp, target.stamp) >= 0) ?? last;
  if ("line" in target) return rows.find((row) => row.number !== null && row.number >= target.line) ?? last;
  if ("row" in target) return rows.filter((row) => row.number !== null)[target.row - first] ?? last;
  return last;
}
