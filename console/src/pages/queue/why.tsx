/** Why a job is in its state: the sentence, what blocks it, and the change that would start it. */

import { isWaiting, jobIdOf } from "../../core/queue";
import { jobResource } from "../../core/route";
import { callApi } from "../../net/api";
import { nameJobs } from "../../net/job_names";
import type { JobExplanation, JobRow } from "../../net/types";
import { ErrorNotice, sentence } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { Span } from "../../ui/time";
import { WaitingFacts } from "../../ui/waiting";

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
      {waiting && (
        <>
          <WaitingFacts project={row.project} job={jobIdOf(row)} waiting={waiting} />
          <p class="hint">
            Reason {waiting.reason}{waiting.since && <> for <Span start={waiting.since} /></>}
            {waiting.queuePosition ? `, number ${waiting.queuePosition} in the queue` : ""}.
            Created <Span start={row.createTime} /> ago.
          </p>
        </>
      )}
      {answer.warning && <p>{sentence(answer.warning)}</p>}
    </div>
  );
}
