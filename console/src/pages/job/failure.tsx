/** Why a job failed: its error, the first error of its log, and the last words of the replica. */

import { useEffect } from "preact/hooks";

import { parseLine } from "../../core/ansi";
import { describeError, findError, type ErrorReport } from "../../core/errors";
import { jobPath } from "../../core/route";
import { ApiError, callApi } from "../../net/api";
import type { JobSummary, LogWindow } from "../../net/types";
import { Notice, sentence } from "../../ui/notice";
import { StyledText } from "../log/line";
import { cutText } from "../log/pieces";
import { readRows, type LogRow, type WireLine } from "../log/rows";
import type { JobStore } from "./data";

export interface JobFailure {
  /** The first error of a replica; null without one. */
  readonly error: LoggedError | null;
  /** The last lines of the replica that failed first, or of all. */
  readonly lastWords: readonly LogRow[];
  /** The replica of the last words; null for all. */
  readonly task: string | null;
}

/** An error in the log: where it begins, and the lines that say what it is and where it happened. */
export interface LoggedError {
  readonly begin: LogRow;
  readonly sentence: LogRow;
  readonly lines: readonly LogRow[];
}

const LAST_WORDS = 8;
/** Lines of a replica before and behind the first one with an error, and at the end, that are read. */
const BEFORE = 40;
const BEHIND = 400;
const TAIL = 200;

/** Return the failure of a job that failed, null for other jobs and without a log. */
export function useFailure(store: JobStore, summary: JobSummary): JobFailure | "loading" | null {
  const isFailed = summary.state === "FAILED";
  useEffect(() => {
    if (isFailed) void readOnce(store, summary);
  }, [store, isFailed]);
  return isFailed ? store.failure.value : null;
}

/** The panel and the log use one reading. */
async function readOnce(store: JobStore, summary: JobSummary): Promise<void> {
  if (store.isFailureRead) return;
  store.isFailureRead = true;
  store.failure.value = await readFailure(store, summary);
  store.isFailureRead = store.failure.value !== null;
}

async function readFailure(store: JobStore, summary: JobSummary): Promise<JobFailure | null> {
  const failed = summary.replicas.find((replica) => replica.state === "FAILED" && (replica.exitCode ?? 0) !== 0);
  const task = failed?.taskName ?? null;
  const read: ReadLines = async (query) => {
    const { lines } = await callApi<LogWindow>("GET", `${store.resource}/logs:window`, { query });
    return lines.filter(([number]) => number !== null);
  };
  try {
    const [error, tail] = await Promise.all([readFirstError(read).catch(() => null), read({ end: true, count: TAIL, task })]);
    return { error: error ?? readError(tail, findError), lastWords: readRows(tail.slice(-LAST_WORDS)), task };
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}

type ReadLines = (query: Record<string, string | number | boolean | null>) => Promise<WireLine[]>;

/** Read the first line of the log with an error, and the lines of its replica around it. */
async function readFirstError(read: ReadLines): Promise<LoggedError | null> {
  const [first] = await read({ row: 1, count: 1, severity: "ERROR" });
  if (!first) return null;
  const [, stamp, task] = first;
  const lines = await read({ stamp, before: BEFORE, count: BEFORE + BEHIND, task });
  const at = lines.findIndex(([, other]) => other === stamp);
  return at < 0 ? readError([first], (texts) => describeError(texts, 0)) : readError(lines, (texts) => describeError(texts, at));
}

function readError(lines: readonly WireLine[], find: (texts: readonly string[]) => ErrorReport | null): LoggedError | null {
  const report = find(lines.map(([, , , , text]) => parseLine(text).map((run) => run.text).join("")));
  const rows = readRows(lines);
  const [begin, sentence] = [rows[report?.begin ?? -1], rows[report?.error ?? -1]];
  if (!report || !begin || !sentence) return null;
  const shown = [...report.code, report.error].sort((left, right) => left - right);
  return { begin, sentence, lines: shown.map((index) => rows[index]).filter((row) => row !== undefined) };
}

export function Failure({ store, summary }: { store: JobStore; summary: JobSummary }) {
  const failure = useFailure(store, summary);
  if (summary.state !== "FAILED") return null;
  return (
    <section class="job-failure" aria-label="Failure">
      <Notice tone="error">{sentence(summary.error ?? "The job failed")}</Notice>
      {failure && failure !== "loading" && <Words failure={failure} store={store} />}
    </section>
  );
}

function Words({ failure, store }: { failure: JobFailure; store: JobStore }) {
  const { error, lastWords, task } = failure;
  const path = jobPath(store.project, store.job);
  return (
    <div class="job-words">
      {error && (
        <>
          <h2>First error <span class="hint">of {error.sentence.task}</span> <a href={`${path}?stamp=${error.begin.stamp}`} target="_self">in the log</a></h2>
          <pre tabIndex={0}>{error.lines.map((row) => <WordLine key={row.key} row={row} isError={row === error.sentence} />)}</pre>
        </>
      )}
      {lastWords.length > 0 && (
        <>
          <h2>Last words{task ? ` of ${task}` : ""}</h2>
          <pre tabIndex={0}>{lastWords.map((row) => <WordLine key={row.key} row={row} withTask={!task} />)}</pre>
        </>
      )}
    </div>
  );
}

function WordLine({ row, withTask = false, isError = false }: { row: LogRow; withTask?: boolean; isError?: boolean }) {
  return (
    <div class={isError ? "word error" : "word"}>
      {withTask && <span class="hint">{row.task} </span>}
      <span class="line-text"><StyledText text={cutText(row.text, 500)} /></span>
    </div>
  );
}
