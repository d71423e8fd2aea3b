/** The scrollbar of a log: its share is a line number, and marks show errors, hits and restarts. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { formatCount } from "../../core/format";
import { lineAtShare, shareOfLine, shareOfOffset, thumbOf } from "../../core/viewport";

export interface ScrollMark {
  /** The position of the line among those shown, from 0. */
  readonly line: number;
  readonly kind: "error" | "hit" | "restart";
}

interface ScrollbarProps {
  /** The position of the first visible line, from 0. */
  line: number;
  total: number;
  shown: number;
  marks: readonly ScrollMark[];
  onMove: (line: number) => void;
}

export function Scrollbar({ line, total, shown, marks, onMove }: ScrollbarProps) {
  const track = useRef<HTMLDivElement>(null);
  const height = useSignal(400);
  const dragged = useSignal<number | null>(null);
  useEffect(() => {
    const sizes = new ResizeObserver(() => (height.value = track.current?.clientHeight ?? 400));
    if (track.current) sizes.observe(track.current);
    return () => sizes.disconnect();
  }, []);
  const shownLine = dragged.value ?? line;
  const thumb = thumbOf(shareOfLine(shownLine, total, shown), total === 0 ? 1 : shown / total, height.value);
  const move = (event: PointerEvent): void => {
    const top = track.current?.getBoundingClientRect().top ?? 0;
    const share = shareOfOffset(event.clientY - top - thumb.height / 2, thumb.height, height.value);
    dragged.value = lineAtShare(share, total, shown);
    onMove(dragged.value);
  };
  const press = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    event.preventDefault();
    track.current?.setPointerCapture(event.pointerId);
    move(event);
  };
  return (
    <div class="log-scrollbar" ref={track} role="scrollbar" aria-label="Position in the log" aria-orientation="vertical" aria-controls="log-lines"
      aria-valuemin={1} aria-valuemax={Math.max(1, total)} aria-valuenow={Math.min(total, shownLine + 1)}
      onPointerDown={press} onPointerMove={(event) => dragged.value !== null && move(event)}
      onPointerUp={() => (dragged.value = null)} onPointerCancel={() => (dragged.value = null)}>
      <Marks marks={marks} total={total} height={height.value} />
      <div class="log-thumb" style={{ height: `${thumb.height}px`, transform: `translateY(${thumb.offset}px)` }} />
      {dragged.value !== null && <div class="log-bubble" style={{ transform: `translateY(${thumb.offset}px)` }}>{formatCount(shownLine + 1)}</div>}
    </div>
  );
}

/** Marks that fall on one pixel are one element. */
function Marks({ marks, total, height }: { marks: readonly ScrollMark[]; total: number; height: number }) {
  const pixels = new Map<string, { kind: string; y: number }>();
  for (const mark of marks) {
    const y = Math.floor((mark.line / Math.max(1, total)) * (height - 2) / 2) * 2;
    pixels.set(`${mark.kind} ${y}`, { kind: mark.kind, y });
  }
  return <>{[...pixels].map(([key, { kind, y }]) => <i key={key} class={`log-mark ${kind}`} style={{ transform: `translateY(${y}px)` }} />)}</>;
}
