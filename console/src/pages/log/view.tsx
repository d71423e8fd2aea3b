/** The log of a job: any line of it by its number, a search over all of it, and its growing end. */

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";

import { now } from "../../core/clock";
import { formatCount, formatSpan, parseTime } from "../../core/format";
import { jobPath } from "../../core/route";
import { route, setQuery } from "../../core/router";
import { ApiError } from "../../net/api";
import { subscribe } from "../../net/stream";
import type { JobSummary } from "../../net/types";
import { copyText } from "../../ui/clipboard";
import { ErrorNotice, Notice } from "../../ui/notice";
import { useRecovery } from "../../ui/resource";
import { readChoices, type LogChoices } from "./choices";
import { LogController } from "./controller";
import { JumpDialog } from "./jump";
import { useLogKeys } from "./keys";
import type { LineStyle } from "./line";
import { Lines } from "./lines";
import { findLiteral } from "./pieces";
import { logPort } from "./port";
import { ReadAloud } from "./read_aloud";
import { isFiltered, isGrave, stampText, type LogRow } from "./rows";
import { Scrollbar, type ScrollMark } from "./scrollbar";
import { describeUnlisted, hitRows } from "./search";
import { Toolbar } from "./toolbar";
import { WholeLine } from "./whole_line";

interface LogViewProps {
  project: string;
  job: string;
  summary: JobSummary;
  /** Whether the job may still write lines. */
  isOpen: boolean;
  /** The stamp of the line to open at when the address names none; null for the end. */
  openAt?: string | null;
}

export function LogView({ project, job, summary, isOpen, openAt = null }: LogViewProps) {
  const choices = useChoices();
  const controller = useController(project, job, choices, openAt);
  useFollowing(controller, project, job, summary);
  useSearching(controller, choices);
  const isJumping = useSignal(false);
  const whole = useSignal<LogRow | null>(null);
  const startMs = parseTime(summary.startTime ?? summary.createTime) ?? 0;
  const style = useLineStyle(controller, choices, startMs, (row) => (whole.value = row), jobPath(project, job));
  useLogKeys(controller, choices, () => (isJumping.value = true));
  const rows = choices.onlyHits && choices.query ? hitRows(controller.search.hits.value) : controller.feed.rows.value;
  const section = useLogInView(controller);
  return (
    <section ref={section} class="log" aria-label="Log">
      <Toolbar controller={controller} choices={choices} isOpen={isOpen} onJump={() => (isJumping.value = true)}
        onCopy={() => void copyText(controller.visibleText(), "lines on the screen")} />
      <LogNotices controller={controller} />
      <LogBody controller={controller} choices={choices} style={style} rows={rows} summary={summary} />
      <div class="log-foot">
        {choices.onlyHits && choices.query ? <HitsStatus controller={controller} /> : <LogStatus controller={controller} choices={choices} />}
        <ReadAloud feed={controller.feed} />
      </div>
      {isJumping.value && <JumpDialog controller={controller} utc={choices.times === "utc"} onClose={() => (isJumping.value = false)} />}
      {whole.value && <WholeLine row={whole.value} raw={choices.raw} onClose={() => (whole.value = null)} onSave={() => void controller.port.save("text", false)} />}
    </section>
  );
}

/** The share of the log that must be in the window when an order leads to a line. */
const VISIBLE_MIN = 0.6;

/** Bring the log into view when an order leads to a line; a failed job has much above its log. */
function useLogInView(controller: LogController) {
  const section = useRef<HTMLElement>(null);
  const orders = controller.orders.value;
  useEffect(() => {
    const box = orders > 0 ? section.current?.getBoundingClientRect() : undefined;
    if (box && innerHeight - box.top < Math.min(box.height, innerHeight) * VISIBLE_MIN) section.current?.scrollIntoView();
  }, [orders]);
  return section;
}

function useChoices(): LogChoices {
  const text = route.value.query.toString();
  return useMemo(() => readChoices(new URLSearchParams(text)), [text]);
}

function useController(project: string, job: string, choices: LogChoices, openAt: string | null): LogController {
  const { task, severity, attempt, trial } = choices.filter;
  const controller = useMemo(
    () => new LogController(logPort(project, job, choices.filter), choices.filter),
    [project, job, task, severity, attempt, trial],
  );
  const open = (): void => void controller.open(choices.stamp ?? openAt);
  useEffect(() => {
    open();
    return () => controller.dispose();
  }, [controller]);
  useRecovery(() => controller.feed.ready.peek() || open());
  return controller;
}

/** Read new lines when the stream tells their number, and when the job's state changes. */
function useFollowing(controller: LogController, project: string, job: string, summary: JobSummary): void {
  const announce = (total: number | null): void =>
    void controller.feed.announce(total, controller.viewport.atEnd.peek());
  useEffect(() => subscribe(`log:${project}/${job}`, (event) => {
    const total = (event.data as { total?: unknown } | null)?.total;
    announce(typeof total === "number" && !isFiltered(controller.filter) ? total : null);
  }), [controller]);
  useEffect(() => announce(null), [controller, summary.state, summary.attempt]);
  useRecovery(() => announce(null));
}

function useSearching(controller: LogController, choices: LogChoices): void {
  const { query } = choices;
  useEffect(() => {
    controller.find(query);
    return () => controller.search.cancel();
  }, [controller, query?.text, query?.isExpression, query?.matchesCase]);
  useEffect(() => controller.search.hits.subscribe(() => controller.takeHits()), [controller]);
}

function useLineStyle(
  controller: LogController, choices: LogChoices, startMs: number, onShowAll: (row: LogRow) => void, path: string,
): LineStyle {
  const hits = controller.search.hits.value;
  const query = choices.query;
  return useMemo(() => {
    const columns = new Map(hits.map((hit) => [hit.stamp, hit.columns]));
    return {
      times: choices.times, startMs, raw: choices.raw, onShowAll,
      hitsOf: (row) => columns.get(row.stamp) ?? (query && !query.isExpression ? findLiteral(row.text, query.text, query.matchesCase) : []),
      hrefOf: (stamp) => `${path}?stamp=${stamp}`,
      onLink: (row) => copyLink(controller, row),
      onCopy: (text, what) => void copyText(text, what),
    };
  }, [controller, choices, startMs, hits, path]);
}

/** Put the line into the address, mark it, and copy the address. */
function copyLink(controller: LogController, row: LogRow): void {
  setQuery({ stamp: row.stamp, hits: null });
  controller.current.value = row.key;
  void controller.toStamp(row.stamp);
  void copyText(location.href, "link to this line");
}

function LogNotices({ controller }: { controller: LogController }) {
  const { feed, message } = controller;
  const error = feed.error.value;
  return (
    <>
      {error instanceof ApiError && !error.isAway && <ErrorNotice error={error} retry={() => void controller.open(null)} />}
      {feed.prunedBefore.value && <Notice tone="info">The log begins at {stampText(feed.prunedBefore.value)}: older lines were removed to save space.</Notice>}
      {message.value && <Notice tone="info">{message.value}</Notice>}
    </>
  );
}

interface BodyProps {
  controller: LogController;
  choices: LogChoices;
  style: LineStyle;
  rows: readonly LogRow[];
  summary: JobSummary;
}

function LogBody({ controller, choices, style, rows, summary }: BodyProps) {
  const isHits = choices.onlyHits && choices.query !== null;
  useLayoutEffect(() => controller.showOnlyHits(isHits), [controller, isHits]);
  const { ready, total } = controller.feed;
  const isEmpty = ready.value && (rows.length === 0 || total.value === 0);
  if (!isHits && isEmpty && rows.length === 0) return <EmptyLog choices={choices} summary={summary} />;
  return (
    <>
      {!isHits && isEmpty && <EmptyLog choices={choices} summary={summary} />}
      <div class="log-body">
        <Lines key={isHits ? "hits" : "lines"} rows={rows} feed={isHits ? null : controller.feed} viewport={isHits ? controller.hitsViewport : controller.viewport}
          style={style} wrap={choices.wrap} current={controller.current} label={isHits ? "Lines with a hit" : "Lines of the log"} />
        {!isHits && controller.feed.hasPositions.value && <LogScrollbar controller={controller} choices={choices} />}
      </div>
    </>
  );
}

const NO_LINE: Readonly<Record<string, string>> = {
  QUEUED: "the job waits for machines", ENQUEUED: "the job waits in the queue of its engine",
  PREPARING: "replicas are being started", RUNNING: "the replicas have printed nothing",
};

function EmptyLog({ choices, summary }: { choices: LogChoices; summary: JobSummary }) {
  if (isFiltered(choices.filter)) return <p class="log-empty">No line matches the filters.</p>;
  const why = NO_LINE[summary.state];
  if (!why) return <p class="log-empty">The job has printed no line.</p>;
  const since = summary.state === "RUNNING" ? summary.startTime : summary.createTime;
  return <p class="log-empty">No line yet: {why} ({formatSpan(since, null, now.value)}).</p>;
}

function LogScrollbar({ controller, choices }: { controller: LogController; choices: LogChoices }) {
  const { feed, viewport, search } = controller;
  const total = feed.total.value ?? 0;
  const rows = feed.rows.value;
  const top = Math.min(viewport.top.value, rows.length);
  const line = viewport.atEnd.value ? Math.max(0, total - viewport.shown.value) : feed.positionOf(top) - 1;
  const hits = search.hits.value;
  const marks = useMemo(() => scrollMarks(controller, choices), [controller, hits, rows, feed.attempts.value, controller.errors.value]);
  return <Scrollbar line={line} total={total} shown={viewport.shown.value} marks={marks} onMove={(position) => void controller.toPosition(position + 1)} />;
}

/** Return the marks of the log without a filter, in which positions are numbers. */
function scrollMarks(controller: LogController, choices: LogChoices): readonly ScrollMark[] {
  if (isFiltered(choices.filter)) return [];
  const { feed, search } = controller;
  const errors = [...controller.errors.peek(), ...feed.rows.peek().filter((row) => row.number !== null && isGrave(row.severity))];
  return [
    ...feed.attempts.peek().slice(1).map((attempt): ScrollMark => ({ line: attempt.first - 1, kind: "restart" })),
    ...search.hits.peek().filter((hit) => hit.n !== null).map((hit): ScrollMark => ({ line: (hit.n ?? 1) - 1, kind: "hit" })),
    ...errors.map((row): ScrollMark => ({ line: (row.number ?? 1) - 1, kind: "error" })),
  ];
}

/** Says which lines with a hit are not listed, because there are too many. */
function HitsStatus({ controller }: { controller: LogController }) {
  const { hits, gap, searched, begin } = controller.search;
  const text = searched.value === null ? describeUnlisted(hits.value, gap.value, begin.value) : null;
  return text && <p class="log-status num">{text}</p>;
}

function LogStatus({ controller, choices }: { controller: LogController; choices: LogChoices }) {
  const { feed, viewport } = controller;
  const total = feed.total.value;
  if (total === null || !feed.ready.value) return null;
  const last = viewport.atEnd.value ? total : Math.min(total, feed.positionOf(Math.min(viewport.top.value, feed.rows.value.length)) + viewport.shown.value - 1);
  const first = Math.max(1, last - viewport.shown.value + 1);
  const about = feed.exact.value ? "" : "about ";
  const noun = isFiltered(choices.filter) ? "lines that match the filters" : "lines";
  return <p class="log-status num">{total === 0 ? `0 ${noun}` : `${formatCount(first)}–${formatCount(last)} of ${about}${formatCount(total)} ${noun}`}</p>;
}
