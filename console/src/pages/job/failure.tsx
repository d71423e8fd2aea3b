/** Why a job failed: its error, the first line with an error, and the last words of the replica. */

import { useEffect } from "preact/hooks";

import { jobPath } from "../../core/route";
import { ApiError, callApi } from "../../net/api";
import type { JobSummary, LogWindow } from "../../net/types";
import { Notice, sentence } from "../../ui/notice";
import { StyledText } from "../log/line";
import { cutText } from "../log/pieces";
import { readRows, type LogRow } from "../log/rows";
import type { JobStore } from "./data";

export interface JobFailure {
  /** The first line of a replica with an error; null without one. */
  readonly firstError: LogRow | null;
  /** The last lines of the replica that failed first, or of all. */
  readonly lastWords: readonly LogRow[];
  /** The replica of the last words; null for all. */
  readonly task: string | null;
}

const LAST_WORDS = 8;

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
  const read = async (query: Record<string, string | number | boolean | null>): Promise<readonly LogRow[]> =>
    readRows((await callApi<LogWindow>("GET", `${store.resource}/logs:window`, { query })).lines);
  try {
    const [errors, words] = await Promise.all([
      read({ row: 1, count: 1, severity: "ERROR" }).catch(() => []),
      read({ end: true, count: LAST_WORDS, task }),
    ]);
    const firstError = errors.find((row) => row.number !== null) ?? null;
    return { firstError, lastWords: words.filter((row) => row.number !== null), task };
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
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
  const { firstError, lastWords, task } = failure;
  const path = jobPath(store.project, store.job);
  return (
    <div class="job-words">
      {firstError && (
        <>
          <h2>First line with an error <a href={`${path}?stamp=${firstError.stamp}`} target="_self">in the log</a></h2>
          <pre tabIndex={0}><WordLine row={firstError} withTask /></pre>
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

function WordLine({ row, withTask }: { row: LogRow; withTask: boolean }) {
  return (
    <div class="word">
      {withTask && <span class="hint">{row.task} </span>}
      <span class="line-text"><StyledText text={cutText(row.text, 500)} /></span>
    </div>
  );
}
