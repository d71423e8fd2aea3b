/** Why a job is in its state: the sentence, what blocks it, and the change that would start it. */

import { showHidden } from "../../core/hidden";
import { isWaiting, jobIdOf } from "../../core/queue";
import { jobResource, submitPath } from "../../core/route";
import { callApi } from "../../net/api";
import { nameJobs } from "../../net/job_names";
import { maySubmit } from "../../net/session";
import type { JobExplanation, JobRow, Waiting } from "../../net/types";
import { JobLink } from "../../ui/job_link";
import { ErrorNotice, sentence } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { Span } from "../../ui/time";

export function WhyPanel({ row }: { row: JobRow }) {
  const path = `${jobResource(row.project, jobIdOf(row))}/explain`;
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
          It {showHidden(waiting.change.text)}.{" "}
          {maySubmit() && <a class="button primary" href={submitPath(row.project, jobIdOf(row), true)}>Try it</a>}
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
