// The states of a job over time, from its events: a bar for each state, and its share of the whole.

import { isEnded } from "../../core/queue";
import type { JobEvent, JobState } from "../../net/schemas";

export interface StateSpan {
  readonly state: JobState;
  readonly attempt: number;
  /** Milliseconds since 1970. */
  readonly from: number;
  readonly to: number;
  /** The share of the whole, 0 to 1. */
  readonly share: number;
}

/** Kinds of events that begin a state.  RESTARTING and HELD say that the job is in the queue again. */
const STATES: Readonly<Record<string, JobState>> = {
  ACCEPTED: "QUEUED", RESTARTING: "QUEUED", HELD: "QUEUED", HANDED_OVER: "ENQUEUED", PREPARING: "PREPARING",
  RUNNING: "RUNNING", RESTART_ORDERED: "RESTARTING", CANCELLING: "CANCELLING",
  SUCCEEDED: "SUCCEEDED", FAILED: "FAILED", CANCELLED: "CANCELLED",
};

interface Beginning {
  readonly state: JobState;
  readonly attempt: number;
  readonly from: number;
}

/** Return the spans of a job's states until its end, or until `now` (milliseconds since 1970). */
export function stateSpans(events: readonly JobEvent[], now: number): readonly StateSpan[] {
  const begins = beginnings(events);
  const first = begins[0];
  const last = begins[begins.length - 1];
  if (!first || !last) return [];
  const end = isEnded(last) ? last.from : Math.max(now, last.from);
  const total = Math.max(1, end - first.from);
  return begins.flatMap((begin, index) => {
    if (isEnded(begin)) return [];
    const to = begins[index + 1]?.from ?? end;
    return [{ ...begin, to, share: (to - begin.from) / total }];
  });
}

function beginnings(events: readonly JobEvent[]): readonly Beginning[] {
  const begins: Beginning[] = [];
  for (const event of events) {
    const state = STATES[event.kind];
    if (!state || begins[begins.length - 1]?.state === state) continue;
    begins.push({ state, attempt: event.attempt, from: Date.parse(event.time) });
  }
  return begins;
}
