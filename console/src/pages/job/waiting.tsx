/** Why a job waits: the reason, what blocks it, and the change that would start it. */

import { now } from "../../core/clock";
import { formatSpan } from "../../core/format";
import { nameJobs } from "../../net/job_names";
import type { JobSummary } from "../../net/types";
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
      <WaitingFacts project={store.project} job={store.job} waiting={waiting} />
    </Notice>
  );
}
