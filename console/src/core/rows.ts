/** Which rows of a long list are visible, and where they stand. Pure. */

export interface Range {
  first: number;
  /** One behind the last row. */
  last: number;
}

/** A list of rows of one height, with at most one detail of another height under a row. */
export interface RowLayout {
  count: number;
  rowHeight: number;
  /** The index of the row with a detail under it; -1 without one. */
  detailIndex: number;
  /** The height of the detail in pixels. */
  detailHeight: number;
}

/** Return the offset of a row in pixels. */
export function rowTop(layout: RowLayout, index: number): number {
  const isBehind = layout.detailIndex >= 0 && index > layout.detailIndex;
  return index * layout.rowHeight + (isBehind ? layout.detailHeight : 0);
}

/** Return the height of all rows and the detail in pixels. */
export function totalHeight(layout: RowLayout): number {
  return layout.count * layout.rowHeight + (layout.detailIndex >= 0 ? layout.detailHeight : 0);
}

/** Return the index of the row at an offset, not limited to the list. */
function indexAt(layout: RowLayout, offset: number): number {
  const detailTop = (layout.detailIndex + 1) * layout.rowHeight;
  if (layout.detailIndex < 0 || offset < detailTop) return Math.floor(offset / layout.rowHeight);
  return Math.max(layout.detailIndex, Math.floor((offset - layout.detailHeight) / layout.rowHeight));
}

/** Return the rows between `top` and `top + height` pixels, with `extra` rows before and behind. */
export function visibleRange(layout: RowLayout, top: number, height: number, extra: number): Range {
  const begin = Math.max(0, Math.min(top, totalHeight(layout) - height));
  const first = Math.max(0, indexAt(layout, begin) - extra);
  const last = Math.min(layout.count, indexAt(layout, begin + height) + 1 + extra);
  return { first: Math.min(first, last), last };
}

/** Return the scroll offset that shows a row in `height` pixels with the least movement. */
export function offsetToShow(layout: RowLayout, index: number, top: number, height: number): number {
  const begin = rowTop(layout, index);
  const end = begin + layout.rowHeight;
  if (begin < top) return begin;
  return end > top + height ? end - height : top;
}
