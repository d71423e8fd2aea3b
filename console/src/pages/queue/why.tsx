/** Why a job is in its state: the sentence, what blocks it, and the change that would start it. */

import { isWaiting, jobIdOf } from "../../core/queue";
import { callApi } from "../../net/api";
import { nameJobs } from "../../net/job_names";
import { maySubmit } from "../../net/session";
import type { JobExplanation, JobRow, Waiting } from "../../net/types";
import { JobLink } from "../../ui/job_link";
import { ErrorNotice, sentence } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { Span } from "../../ui/time";

/** Return the address of Submit with a job's document, with or without the offered change. */
export function submitPath(row: JobRow, withChange: boolean): string {
  const from = `${encodeURIComponent(row.project)}/${encodeURIComponent(jobIdOf(row))}`;
  return `/console/submit?from=${from}${withChange ? "&change=1" : ""}`;
}

export function WhyPanel({ row }: { row: JobRow }) {
  const path = `/projects/${encodeURIComponent(row.project)}/jobs/${encodeURIComponent(jobIdOf(row))}/explain`;
  const key = `${path} ${row.state} ${row.reason ?? ""}`;
  const explanation = useResource(key, (signal) => callApi<JobExplanation>("GET", path, { signal }));
  const answer = explanation.value.value;
  if (explanation.error.value) return <ErrorNotice error={explanation.error.value} retry={explanation.reload} />;
  if (!answer) return <p class="loading">Reading the explanation…</p>;
  const waiting = isWaiting(row) ? answer.waiting : null;
  return (
    <div class="why-panel">
      <p>{sentence(nameJobs(waiting?.message ?? answer.message))}</p>
      {waiting && <WaitingFacts waiting={waiting} row={row} />}
      {answer.warning && <p>{sentence(answer.warning)}</p>}
    </div>
  );
}

function WaitingFacts({ waiting, row }: { waiting: Waiting; row: JobRow }) {
  return (
    <>
      {waiting.change && (
        <p class="change">
          {sentence(waiting.change.text)}{" "}
          {maySubmit() && <a class="button primary" href={submitPath(row, true)}>Try it</a>}
        </p>
      )}
      <Blockers names={waiting.blockers ?? []} />
      <p class="hint">
        Reason {waiting.reason}{waiting.since && <> for <Span start={waiting.since} /></>}
        {waiting.queuePosition ? `, position ${waiting.queuePosition}` : ""}.
        Created <Span start={row.createTime} /> ago.
      </p>
    </>
  );
}

function Blockers({ names }: { names: readonly string[] }) {
  if (names.length === 0) return null;
  return (
    <p>
      Blocked by{" "}
      {names.map((name, index) => <span key={name}>{index > 0 && ", "}<JobLink name={name} /></span>)}
    </p>
  );
}
