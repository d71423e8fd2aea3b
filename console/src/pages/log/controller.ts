/** What a user can do with the view of a log: go to a line, follow, search, go to errors, copy. */

import { signal } from "@preact/signals";

import { parseLine } from "../../core/ansi";
import { compareStamps } from "../../core/viewport";
import { ApiError } from "../../net/api";
import { LogFeed, type Target } from "./feed";
import type { LogPort } from "./port";
import { isFiltered, stampText, type LogFilter, type LogRow } from "./rows";
import { hitRows, LogSearch, nextHit, type LogQuery } from "./search";
import { LogViewport } from "./viewport";

/** Where a line that was looked for appears: with some lines before it. */
const LOOKED_FOR = 0.3;
/** The most errors with marks. */
const ERRORS_MAX = 500;

export class LogController {
  readonly feed: LogFeed;
  readonly search: LogSearch;
  readonly viewport = new LogViewport();
  /** Where the reader is among the hits, while only they are shown. */
  readonly hitsViewport = new LogViewport();
  /** The row that a link, a hit or an error led to. */
  readonly current = signal<string | null>(null);
  /** A sentence about the last order that led nowhere; null if it did. */
  readonly message = signal<string | null>(null);
  /** The newest errors of the log, for marks on the scrollbar. */
  readonly errors = signal<readonly LogRow[]>([]);
  /** How many orders have led to a line: the page then brings the log into view. */
  readonly orders = signal(0);
  private isOnlyHits = false;
  private wantsHit = false;
  /** The stamp behind which a search looks for its first hit. */
  private origin: string | null = null;
  private moving: Target | null = null;
  private isMoving = false;

  constructor(readonly port: LogPort, readonly filter: LogFilter) {
    this.feed = new LogFeed(port.window);
    this.search = new LogSearch(port.hits);
  }

  /** Show the line of a stamp, or the end; then read where the errors are. */
  async open(stamp: string | null): Promise<void> {
    if (stamp === null) await this.showEnd();
    else await this.toStamp(stamp);
    if (!isFiltered(this.filter) && this.feed.hasPositions.peek()) await this.readErrors();
  }

  private async readErrors(): Promise<void> {
    try {
      const rows = await this.port.rowsOf({ end: true, count: ERRORS_MAX }, { ...this.filter, severity: "ERROR" });
      this.errors.value = rows.filter((row) => row.number !== null);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }

  /** Show only the hits, from the present line on, or all lines. */
  showOnlyHits(isOnlyHits: boolean): void {
    this.isOnlyHits = isOnlyHits;
    const stamp = this.current.peek();
    if (isOnlyHits && stamp !== null) this.hitsViewport.goTo(stamp, LOOKED_FOR);
    else if (isOnlyHits) this.hitsViewport.goToEnd();
  }

  /** Show the last line, or the last hit where only hits are shown. */
  async toEnd(): Promise<void> {
    if (this.isOnlyHits) this.hitsViewport.goToEnd();
    else await this.showEnd();
  }

  private async showEnd(): Promise<void> {
    this.current.value = null;
    this.viewport.goToEnd();
    if (!this.feed.hasEnd.peek()) await this.feed.show({ end: true });
  }

  /** Show the first line, or the first hit where only hits are shown. */
  async toStart(): Promise<void> {
    if (this.isOnlyHits) this.hitsViewport.goTo("0", 0);
    else await this.move(this.feed.hasPositions.peek() ? { line: 1 } : { stamp: "0" }, 0);
  }

  /** Show a line by its stamp, and mark it. */
  async toStamp(stamp: string): Promise<void> {
    const row = this.feed.rows.peek().find((other) => other.stamp === stamp);
    if (row) {
      this.viewport.goTo(stamp, LOOKED_FOR);
      this.current.value = row.key;
    } else await this.move({ stamp }, LOOKED_FOR);
  }

  /** Show a line by its number among all lines of the log. */
  async toNumber(line: number): Promise<void> {
    const hasNumbers = this.feed.hasPositions.peek();
    this.message.value = hasNumbers ? null : "The lines of a study have no numbers, because they are those of its trials: go to a time.";
    if (hasNumbers) await this.move({ line }, LOOKED_FOR);
  }

  /** Show a position of the scrollbar; only the newest of many is read. */
  async toPosition(position: number): Promise<void> {
    this.moving = { row: position };
    if (this.isMoving) return;
    this.isMoving = true;
    try {
      while (this.moving) {
        const target: Target = this.moving;
        this.moving = null;
        await this.move(target, 0);
      }
    } finally {
      this.isMoving = false;
    }
  }

  /** Follow the end of a growing log, or stay at the present line. */
  async toggleFollow(): Promise<void> {
    const row = this.viewport.atEnd.peek() ? this.viewport.firstRow(this.feed.rows.peek()) : null;
    if (row) this.viewport.goTo(row.stamp, 0);
    else await this.showEnd();
  }

  /** Search, and go to the first hit at or behind the reader. */
  find(query: LogQuery | null): void {
    this.wantsHit = query !== null;
    const first = this.referenceRow(this.viewport.visibleRows(this.feed.rows.peek()));
    this.origin = first ? stampBefore(first.stamp) : null;
    const total = this.feed.attempts.peek().reduce((sum, attempt) => sum + attempt.lines, 0);
    const number = this.numberAt(first);
    const start = number === null || number > total ? undefined : { number, share: (number - 1) / total };
    void this.search.start(query, start).then(() => this.takeHits());
  }

  /** Go to the first hit of the whole log. */
  findFirst(): void {
    this.wantsHit = true;
    this.origin = null;
    void this.search.start(this.search.query.peek()).then(() => this.takeHits());
  }

  /** Go to the first hit as soon as one behind the reader has arrived, or all lines there were searched. */
  takeHits(): void {
    const hits = this.search.hits.peek();
    if (!this.wantsHit || hits.length === 0) return;
    const index = nextHit(hits, this.origin, 1);
    const isBehind = this.origin === null || compareStamps(hits[index]?.stamp ?? "0", this.origin) > 0;
    if (!isBehind && !this.search.hasWrapped.peek()) return;
    this.wantsHit = false;
    void this.toHit(index);
  }

  /** Go to the next hit (`step` 1) or the one before (-1). */
  async stepHit(step: 1 | -1): Promise<void> {
    const from = this.reference(step === 1);
    const hits = this.search.hits.peek();
    const isCut = this.search.searched.peek() === null && !this.search.complete.peek() && hits.length > 0;
    const isBehind = from !== null && hits.every((hit) => compareStamps(hit.stamp, from) <= 0);
    if (step === 1 && isCut && isBehind) this.find(this.search.query.peek());
    else await this.toHit(nextHit(hits, from, step));
  }

  /** Return the number of a row, or of the next one that has a number. */
  private numberAt(row: LogRow | null): number | null {
    if (row === null) return null;
    const rows = this.feed.rows.peek();
    return rows.slice(rows.indexOf(row)).find((other) => other.number !== null)?.number ?? null;
  }

  /** Go to the next error (`step` 1) or the one before (-1). */
  async stepError(step: 1 | -1): Promise<void> {
    const stamp = this.reference(step === 1) ?? "0";
    const query = step === 1 ? { stamp: stampAfter(stamp), count: 1 } : { stamp, before: 1, count: 2 };
    const rows = await this.port.rowsOf(query, { ...this.filter, severity: "ERROR" });
    const order = (row: LogRow): boolean => compareStamps(row.stamp, stamp) * step > 0;
    const match = step === 1 ? rows.find(order) : rows.findLast(order);
    this.message.value = match ? null : `There is no error ${step === 1 ? "below" : "above"}.`;
    if (match) await this.showStamp(match.stamp);
  }

  /** Return the visible lines as text. */
  visibleText(): string {
    return this.visibleRows().map(lineText).join("\n");
  }

  dispose(): void {
    this.feed.dispose();
    this.search.cancel();
  }

  private async toHit(index: number): Promise<void> {
    const hit = this.search.hits.peek()[index];
    if (hit) await this.showStamp(hit.stamp);
  }

  /** Obey an order that leads to a line. */
  private async showStamp(stamp: string): Promise<void> {
    this.orders.value += 1;
    if (this.isOnlyHits) this.hitsViewport.goTo(stamp, LOOKED_FOR);
    await this.toStamp(stamp);
  }

  private async move(target: Target, share: number): Promise<void> {
    this.viewport.atEnd.value = false;
    const row = await this.feed.show(target);
    if (row === null) return;
    this.viewport.goTo(row.stamp, share);
    this.current.value = share > 0 ? row.key : null;
  }

  /** Return the lines on the screen. */
  private visibleRows(): readonly LogRow[] {
    if (this.isOnlyHits) return this.hitsViewport.visibleRows(hitRows(this.search.hits.peek()));
    return this.viewport.visibleRows(this.feed.rows.peek());
  }

  /** Return the marked row if it is visible, else the first visible one. */
  private referenceRow(rows: readonly LogRow[]): LogRow | null {
    return rows.find((row) => row.key === this.current.peek()) ?? rows[0] ?? null;
  }

  /** Return the stamp from which orders step: the marked line if it is visible, else an edge. */
  private reference(isForward: boolean): string | null {
    const rows = this.visibleRows();
    const row = this.referenceRow(rows);
    if (row === null || row.key === this.current.peek()) return row?.stamp ?? null;
    return isForward ? stampBefore(row.stamp) : stampAfter(rows[rows.length - 1]?.stamp ?? row.stamp);
  }
}

function stampAfter(stamp: string): string {
  return String(BigInt(stamp) + 1n);
}

function stampBefore(stamp: string): string {
  return String(BigInt(stamp) - 1n);
}

/** Return a line as it is copied: time, task and the text without its colours. */
export function lineText(row: LogRow): string {
  const text = parseLine(row.text).map((run) => run.text).join("");
  return `${stampText(row.stamp)} ${row.task} ${row.severity} ${text}`;
}
