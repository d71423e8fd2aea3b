/** Why a job is in its state: the sentence, what blocks it, and the change that would start it. */

import { isWaiting, jobIdOf } from "../../core/queue";
import { parseResource, showHidden } from "../../core/format";
import { jobPath } from "../../core/route";
import { callApi } from "../../net/api";
import { maySubmit } from "../../net/session";
import type { JobExplanation, JobRow, Waiting } from "../../net/types";
import { ErrorNotice, sentence } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { Span } from "../../ui/time";

/** Return the address of Submit with a job's document, with or without the offered change. */
export function submitPath(row: JobRow, withChange: boolean): string {
  const from = `${encodeURIComponent(row.project)}/${encodeURIComponent(jobIdOf(row))}`;
  return `/console/submit?from=${from}${withChange ? "&change=1" : ""}`;
}

interface WhyProps {
  row: JobRow;
  /** The rows of the queue, which have the names of jobs that block this one. */
  rows: ReadonlyMap<string, JobRow>;
}

export function WhyPanel({ row, rows }: WhyProps) {
  const path = `/projects/${encodeURIComponent(row.project)}/jobs/${encodeURIComponent(jobIdOf(row))}/explain`;
  const key = `${path} ${row.state} ${row.reason ?? ""}`;
  const explanation = useResource(key, (signal) => callApi<JobExplanation>("GET", path, { signal }));
  const answer = explanation.value.value;
  if (explanation.error.value) return <ErrorNotice error={explanation.error.value} retry={explanation.reload} />;
  if (!answer) return <p class="loading">Reading the explanation…</p>;
  const waiting = isWaiting(row) ? answer.waiting : null;
  return (
    <div class="why-panel">
      <p>{sentence(waiting?.message ?? answer.message)}</p>
      {waiting && <WaitingFacts waiting={waiting} row={row} rows={rows} />}
      {answer.warning && <p>{sentence(answer.warning)}</p>}
    </div>
  );
}

function WaitingFacts({ waiting, row, rows }: WhyProps & { waiting: Waiting }) {
  return (
    <>
      {waiting.change && (
        <p class="change">
          {sentence(waiting.change.text)}{" "}
          {maySubmit() && <a class="button primary" href={submitPath(row, true)}>Try it</a>}
        </p>
      )}
      <Blockers names={waiting.blockers ?? []} rows={rows} />
      <p class="hint">
        Reason {waiting.reason}{waiting.since && <> for <Span start={waiting.since} /></>}
        {waiting.queuePosition ? `, position ${waiting.queuePosition}` : ""}.
        Created <Span start={row.createTime} /> ago.
      </p>
    </>
  );
}

function Blockers({ names, rows }: { names: readonly string[]; rows: ReadonlyMap<string, JobRow> }) {
  if (names.length === 0) return null;
  return (
    <p>
      Blocked by{" "}
      {names.map((name, index) => (
        <span key={name}>{index > 0 && ", "}<Blocker name={name} rows={rows} /></span>
      ))}
    </p>
  );
}

function Blocker({ name, rows }: { name: string; rows: ReadonlyMap<string, JobRow> }) {
  const job = /\/(jobs|customJobs|trainingPipelines|hyperparameterTuningJobs)\//.test(name) ? parseResource(name) : null;
  return job ? <a href={jobPath(job.project, job.job)}>{showHidden(rows.get(job.job)?.displayName ?? job.job)}</a> : <code>{name}</code>;
}
