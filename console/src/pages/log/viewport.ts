/**
 * Where the reader is in the buffer. The scroller holds at most 150 lines; when the reader nears
 * their end, other lines are drawn and the first visible one stays where it is on the screen.
 */

import { signal } from "@preact/signals";

import { drawnRange, indexOfStamp, type RowRange } from "../../core/viewport";
import type { LogRow } from "./rows";

/** The first visible row, and how far its top is below the scroller's top, in pixels. */
interface Anchor {
  readonly key: string;
  readonly stamp: string;
  readonly offset: number;
}

/** Lines are drawn anew when fewer than this are left above or below the visible ones. */
const REDRAW_ROWS = 25;
const ROW_PX = 20;

export class LogViewport {
  /** Changes when other lines must be drawn. */
  readonly version = signal(0);
  /** The index of the first visible row. */
  readonly top = signal(0);
  /** How many lines fit. */
  readonly shown = signal(40);
  /** Whether the view stays at the end of the log. */
  readonly atEnd = signal(true);
  private anchor: Anchor | null = null;
  private element: HTMLElement | null = null;
  private expectedTop = -1;
  private lastTop = 0;

  attach(element: HTMLElement | null): void {
    this.element = element;
    if (element) this.measure();
  }

  /** Count the lines that fit. */
  measure(): void {
    const height = this.element?.clientHeight ?? 0;
    if (height > 0) this.shown.value = Math.max(1, Math.floor(height / ROW_PX));
  }

  /** Keep the row of a stamp at a share of the height: 0 top, 0.3 with lines before it. */
  goTo(stamp: string, share: number): void {
    this.atEnd.value = false;
    this.anchor = { key: "", stamp, offset: (this.element?.clientHeight ?? 0) * share };
    this.version.value += 1;
  }

  /** Keep the last row at the bottom. */
  goToEnd(): void {
    this.atEnd.value = true;
    this.anchor = null;
    this.version.value += 1;
  }

  /** Return which rows to draw. */
  range(rows: readonly LogRow[]): RowRange {
    const top = this.atEnd.peek() ? rows.length : this.anchorIndex(rows);
    return drawnRange(top, this.shown.peek(), rows.length);
  }

  /** After drawing: put the anchor back to where it was on the screen. */
  settle(rows: readonly LogRow[], drawn: RowRange): void {
    const element = this.element;
    if (!element || rows.length === 0) return;
    if (this.atEnd.peek()) element.scrollTop = element.scrollHeight;
    else if (this.anchor) {
      const row = element.children[this.anchorIndex(rows) - drawn.from];
      if (row instanceof HTMLElement) element.scrollTop = row.offsetTop - this.anchor.offset;
    }
    this.expectedTop = element.scrollTop;
    this.lastTop = element.scrollTop;
    this.top.value = drawn.from + this.firstVisible(element);
  }

  /** The user or `settle` scrolled. `isLogEnd`: the last row is the last line of the log. */
  onScroll(rows: readonly LogRow[], drawn: RowRange, isLogEnd: boolean): void {
    const element = this.element;
    if (!element || rows.length === 0 || Math.abs(element.scrollTop - this.expectedTop) < 1) return;
    const isUp = element.scrollTop < this.lastTop;
    this.lastTop = element.scrollTop;
    this.expectedTop = -1;
    const index = this.firstVisible(element);
    this.setAnchor(rows, drawn.from + index, element);
    const isBottom = element.scrollTop + element.clientHeight >= element.scrollHeight - 2;
    if (isUp) this.atEnd.value = false;
    else if (isBottom && isLogEnd && drawn.to === rows.length) this.atEnd.value = true;
    const left = drawn.to - (drawn.from + index + this.shown.peek());
    const isThin = (index < REDRAW_ROWS && drawn.from > 0) || (left < REDRAW_ROWS && drawn.to < rows.length);
    if (isThin) this.version.value += 1;
  }

  /** Return the first visible row; null without rows. */
  firstRow(rows: readonly LogRow[]): LogRow | null {
    return rows[Math.min(this.top.peek(), rows.length - 1)] ?? null;
  }

  /** Return the visible rows. */
  visibleRows(rows: readonly LogRow[]): readonly LogRow[] {
    return rows.slice(this.top.peek(), this.top.peek() + this.shown.peek());
  }

  private setAnchor(rows: readonly LogRow[], index: number, element: HTMLElement): void {
    const row = rows[index];
    const child = element.children[this.firstVisible(element)];
    if (!row || !(child instanceof HTMLElement)) return;
    this.anchor = { key: row.key, stamp: row.stamp, offset: child.offsetTop - element.scrollTop };
    this.top.value = index;
  }

  private anchorIndex(rows: readonly LogRow[]): number {
    if (!this.anchor) return 0;
    const index = indexOfStamp(rows, this.anchor.stamp);
    const isNext = rows[index]?.key !== this.anchor.key && rows[index + 1]?.key === this.anchor.key;
    return Math.min(isNext ? index + 1 : index, Math.max(0, rows.length - 1));
  }

  private firstVisible(element: HTMLElement): number {
    let low = 0;
    let high = element.children.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      const child = element.children[middle] as HTMLElement;
      if (child.offsetTop + child.offsetHeight <= element.scrollTop) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low);
  }
}
