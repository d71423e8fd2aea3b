// The arithmetic of a view into a log of any length.  The page holds some hundred rows around the
// reader (a buffer), draws at most 150 of them, and maps the scrollbar's share to a line number:
// an element as tall as a million lines would exceed what browsers can lay out.

/** The most rows that are drawn at once. */
export const DRAWN_MAX = 150;
/** The most rows that are held; rows farther from the reader are forgotten. */
export const HELD_MAX = 2400;
/** A buffer is extended when fewer rows than this are left on one side of the drawn ones. */
const MARGIN = 200;
/** The smallest height of the scrollbar's thumb, in pixels. */
const THUMB_MIN_PX = 24;

/** A row of a buffer: rows are ordered by stamp, and `key` tells two rows of one stamp apart. */
export interface StampedRow {
  readonly key: string;
  /** Nanoseconds since 1970 in decimal; too large for a number. */
  readonly stamp: string;
}

/** A half-open range of indices. */
export interface RowRange {
  readonly from: number;
  readonly to: number;
}

/** Return a negative number if the stamp `a` is earlier than `b`, 0 if they are equal. */
export function compareStamps(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Return all rows of two overlapping or adjacent buffers in the order of their stamps. */
export function mergeRows<R extends StampedRow>(rows: readonly R[], more: readonly R[]): readonly R[] {
  if (rows.length === 0) return more;
  const keys = new Set(rows.map((row) => row.key));
  const added = more.filter((row) => !keys.has(row.key));
  if (added.length === 0) return rows;
  const first = added[0] as R;
  const last = added[added.length - 1] as R;
  if (compareStamps(first.stamp, (rows[rows.length - 1] as R).stamp) > 0) return [...rows, ...added];
  if (compareStamps(last.stamp, (rows[0] as R).stamp) < 0) return [...added, ...rows];
  return [...rows, ...added].sort((a, b) => compareStamps(a.stamp, b.stamp));
}

/** Return the at most `max` rows nearest to the index `center`. */
export function trimRows<R>(rows: readonly R[], center: number, max = HELD_MAX): readonly R[] {
  if (rows.length <= max) return rows;
  const from = clamp(center - Math.floor(max / 2), 0, rows.length - max);
  return rows.slice(from, from + max);
}

/** Return which rows to draw when the row `top` is the first visible one and `shown` fit. */
export function drawnRange(top: number, shown: number, length: number): RowRange {
  const size = Math.min(DRAWN_MAX, length);
  const above = Math.max(0, Math.floor((size - shown) / 2));
  const from = clamp(top - above, 0, length - size);
  return { from, to: from + size };
}

/** Return the sides on which the buffer of `length` rows must grow for the drawn rows. */
export function thinSides(drawn: RowRange, length: number): { above: boolean; below: boolean } {
  return { above: drawn.from < MARGIN, below: length - drawn.to < MARGIN };
}

/** Return the index of the first row at or after a stamp; the number of rows if none is. */
export function indexOfStamp(rows: readonly StampedRow[], stamp: string): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareStamps((rows[middle] as StampedRow).stamp, stamp) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return the thumb's offset and height in pixels on a track. */
export function thumbOf(
  share: number, visibleShare: number, track: number,
): { offset: number; height: number } {
  const height = Math.min(track, Math.max(THUMB_MIN_PX, visibleShare * track));
  return { offset: clamp(share, 0, 1) * (track - height), height };
}

/** Return the share of the log at which a thumb of `height` pixels begins. */
export function shareOfOffset(offset: number, height: number, track: number): number {
  return track <= height ? 0 : clamp(offset / (track - height), 0, 1);
}

/** Return the first visible line for a share of the scrollbar, when `shown` lines fit. */
export function lineAtShare(share: number, total: number, shown: number): number {
  return Math.round(clamp(share, 0, 1) * Math.max(0, total - shown));
}

/** Return the scrollbar's share when `line` is the first visible one and `shown` lines fit. */
export function shareOfLine(line: number, total: number, shown: number): number {
  return total <= shown ? 0 : clamp(line / (total - shown), 0, 1);
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), Math.max(low, high));
}
