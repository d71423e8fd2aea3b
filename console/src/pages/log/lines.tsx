/** The scroller of a log: draws the lines around the reader and asks the feed for more. */

import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { HELD_MAX, thinSides } from "../../core/viewport";
import type { LogFeed } from "./feed";
import { Line, type LineStyle } from "./line";
import type { LogRow } from "./rows";
import type { LogViewport } from "./viewport";

interface LinesProps {
  rows: readonly LogRow[];
  /** The buffer that `rows` are from; null for rows that do not change, such as hits. */
  feed: LogFeed | null;
  viewport: LogViewport;
  style: LineStyle;
  wrap: boolean;
  /** The key of the row that a link, a hit or an error led to. */
  current: ReadonlySignal<string | null>;
  label: string;
}

export function Lines({ rows, feed, viewport, style, wrap, current, label }: LinesProps) {
  const element = useRef<HTMLDivElement>(null);
  void viewport.version.value;
  const drawn = viewport.range(rows);
  const latest = useRef({ rows, drawn });
  latest.current = { rows, drawn };
  useScroller(element, viewport, latest, feed);
  useLayoutEffect(() => viewport.settle(rows, drawn));
  useEffect(() => {
    if (!feed || rows.length === 0) return;
    const sides = thinSides(drawn, rows.length);
    if (rows.length > HELD_MAX) feed.forget(viewport.top.peek());
    if (sides.above) void feed.extendAbove();
    if (sides.below && !feed.hasEnd.peek()) void feed.extendBelow();
  });
  return (
    <div class={wrap ? "log-lines wrapped" : "log-lines"} id="log-lines" ref={element} role="log" aria-live="off" aria-label={label} tabIndex={0}>
      {rows.slice(drawn.from, drawn.to).map((row) => (
        <Line key={row.key} row={row} style={style} isCurrent={row.key === current.value} />
      ))}
    </div>
  );
}

interface Latest {
  current: { rows: readonly LogRow[]; drawn: { from: number; to: number } };
}

function useScroller(element: { current: HTMLDivElement | null }, viewport: LogViewport, latest: Latest, feed: LogFeed | null): void {
  useLayoutEffect(() => {
    const scroller = element.current;
    if (!scroller) return;
    viewport.attach(scroller);
    const onScroll = (): void =>
      viewport.onScroll(latest.current.rows, latest.current.drawn, feed?.hasEnd.peek() ?? true);
    const sizes = new ResizeObserver(() => {
      viewport.measure();
      viewport.version.value += 1;
    });
    sizes.observe(scroller);
    scroller.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      sizes.disconnect();
      scroller.removeEventListener("scroll", onScroll);
      viewport.attach(null);
    };
  }, [viewport, feed]);
}
