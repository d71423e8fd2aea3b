/** What happened to a job: a bar of its states over time, and its events. */

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";

import { now } from "../../core/clock";
import { formatDuration, formatTime } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { isEnded } from "../../core/queue";
import type { JobEvent, JobSummary } from "../../net/types";
import { Time } from "../../ui/time";
import { type JobStore } from "./data";
import { stateSpans, type StateSpan } from "./timeline";

/** The newest events that appear without a request. */
const SHOWN = 100;

export function Story({ store, summary }: { store: JobStore; summary: JobSummary }) {
  const attempt = useSignal("");
  const isAll = useSignal(false);
  const events = store.events.value;
  const attempts = useMemo(() => [...new Set(events.map((event) => event.attempt))].filter(Boolean), [events]);
  const chosen = events.filter((event) => attempt.value === "" || String(event.attempt) === attempt.value);
  const shown = isAll.value ? chosen : chosen.slice(-SHOWN);
  const list = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (isAtEnd.current) list.current?.scrollTo(0, list.current.scrollHeight);
  }, [events.length, attempt.value]);
  const onScroll = ({ currentTarget: { scrollTop, clientHeight, scrollHeight } }: { currentTarget: HTMLElement }): void => {
    isAtEnd.current = scrollTop + clientHeight > scrollHeight - 4; // a user who reads above keeps the place
  };
  return (
    <section class="job-panel" aria-label="Story">
      <h2>
        Story
        {attempts.length > 1 && (
          <select aria-label="Attempt" value={attempt.value} onChange={(event) => (attempt.value = event.currentTarget.value)}>
            <option value="">all attempts</option>
            {attempts.map((number) => <option key={number} value={String(number)}>attempt {number}</option>)}
          </select>
        )}
      </h2>
      <Timeline events={events} summary={summary} />
      <div class="scroll" ref={list} onScroll={onScroll} tabIndex={0} role="region" aria-label="Events">
        {shown.length < chosen.length && <button type="button" onClick={() => (isAll.value = true)}>Show {chosen.length - shown.length} earlier events</button>}
        <ol class="job-events">{shown.map((event) => <EventRow key={event.seq} event={event} />)}</ol>
      </div>
    </section>
  );
}

function EventRow({ event }: { event: JobEvent }) {
  const isGrave = event.kind === "FAILED" || event.data.severity === "ERROR";
  const isWarning = event.kind === "RESTARTING" || event.data.severity === "WARNING";
  return (
    <li class={isGrave ? "grave" : isWarning ? "warn" : ""}>
      <Time value={event.time} /> <span>{showHidden(event.message)}</span>
    </li>
  );
}

function Timeline({ events, summary }: { events: readonly JobEvent[]; summary: JobSummary }) {
  const spans = stateSpans(events, !isEnded(summary) ? now.value : 0);
  if (spans.length === 0) return null;
  const sentence = spans.map((span) => `${nameOf(span)} for ${lengthOf(span)}`).join(", ");
  return (
    <div class="job-timeline" role="img" aria-label={`States: ${sentence}`}>
      {spans.map((span) => (
        <span key={`${span.from} ${span.state}`} class={`span t-${span.state.toLowerCase()}`} style={{ flexGrow: Math.max(span.share, 0.01) }}
          title={`${nameOf(span)}: ${formatTime(new Date(span.from).toISOString())}, ${lengthOf(span)}`}>
          {span.share > 0.12 ? nameOf(span) : ""}
        </span>
      ))}
    </div>
  );
}

function nameOf(span: StateSpan): string {
  return span.state === "RUNNING" && span.attempt > 1 ? `RUNNING ${span.attempt}` : span.state;
}

function lengthOf(span: StateSpan): string {
  return formatDuration((span.to - span.from) / 1000);
}
