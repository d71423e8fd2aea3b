/** Times and durations in text: a duration without an end goes on by the second. */

import { now } from "../core/clock";
import { formatShortTime, formatSpan, formatTime } from "../core/format";

/** A time; the tooltip has it in full and in UTC. */
export function Time({ value }: { value: string | null | undefined }) {
  if (!value) return null;
  const title = `${formatTime(value)} here, ${formatTime(value, true)} UTC`;
  return <time dateTime={value} title={title}>{formatShortTime(value, now.value)}</time>;
}

/** The time from `start` to `end`, or until now. */
export function Span(props: { start: string | null | undefined; end?: string | null | undefined }) {
  return <span class="num">{formatSpan(props.start, props.end, props.end ? 0 : now.value)}</span>;
}
