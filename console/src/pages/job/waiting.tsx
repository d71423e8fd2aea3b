/** Why a job waits: the reason, what blocks it, and the change that would start it. */

import { now } from "../../core/clock";
import { formatSpan } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { isHeld } from "../../core/queue";
import { callApi } from "../../net/api";
import { nameJobs } from "../../net/job_names";
import { maySubmit } from "../../net/session";
import type { JobSummary } from "../../net/types";
import { announceCall } from "../../ui/attempt";
import { Notice, sentence } from "../../ui/notice";
import { WaitingFacts } from "../../ui/waiting";
import type { JobStore } from "./data";

export function WaitingReason({ store, summary }: { store: JobStore; summary: JobSummary }) {
  const { waiting } = summary;
  if (!waiting) return null;
  const since = formatSpan(waiting.since ?? summary.createTime, null, now.value);
  return (
    <Notice tone="info">
      <strong>{waiting.reason}</strong>{waiting.queuePosition ? ` · number ${waiting.queuePosition} in the queue` : ""}{since && <span role="timer"> · {since}</span>}
      <p>{sentence(nameJobs(waiting.message))}</p>
      {maySubmit() && isHeld(summary) && <p><button type="button" class="primary" onClick={() => void resume(store, summary)}>Resume</button></p>}
      <WaitingFacts project={store.project} job={store.job} waiting={waiting} />
    </Notice>
  );
}

async function resume(store: JobStore, summary: JobSummary): Promise<void> {
  await announceCall(() => callApi("POST", `${store.resource}:resume`, { body: {} }), `${showHidden(summary.displayName)} is in the queue again.`);
  await store.reload();
}
