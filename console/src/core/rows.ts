/** Which rows of a long list are visible. Pure. */

export interface Range {
  first: number;
  /** One behind the last row. */
  last: number;
}

/** Return the rows between `top` and `top + height` pixels, with `extra` rows before and behind. */
export function visibleRange(top: number, height: number, rowHeight: number, count: number, extra: number): Range {
  const first = Math.max(0, Math.floor(top / rowHeight) - extra);
  const last = Math.min(count, Math.ceil((top + height) / rowHeight) + extra);
  return { first: Math.min(first, count), last: Math.max(last, 0) };
}
