/** Why a job waits: the reason, what blocks it, and the change that would start it. */

import { jobPath, submitPath } from "../../core/route";
import { now } from "../../core/clock";
import { formatPlural, formatSpan } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { nameJobs } from "../../net/job_names";
import { maySubmit } from "../../net/session";
import type { JobSummary } from "../../net/types";
import { JobLink } from "../../ui/job_link";
import { Notice, sentence } from "../../ui/notice";
import type { JobStore } from "./data";

export function WaitingReason({ store, summary }: { store: JobStore; summary: JobSummary }) {
  const { waiting } = summary;
  if (!waiting) return null;
  const since = formatSpan(waiting.since ?? summary.createTime, null, now.value);
  return (
    <Notice tone="info">
      <strong>{waiting.reason}</strong>{waiting.queuePosition ? ` · number ${waiting.queuePosition} in the queue` : ""}{since && <span role="timer"> · {since}</span>}
      <p>{sentence(nameJobs(waiting.message))}</p>
      <Blockers store={store} names={waiting.blockers ?? []} areNodes={waiting.reason === "DRAINED"} />
      {waiting.change && (
        <p>
          It {showHidden(waiting.change.text)}.{" "}
          {maySubmit() && <a class="try" href={submitPath(store.project, store.job, true)}>Try it</a>}
        </p>
      )}
    </Notice>
  );
}

function Blockers({ store, names, areNodes }: { store: JobStore; names: readonly string[]; areNodes: boolean }) {
  if (names.length === 0) return null;
  return (
    <div>
      <span>{formatPlural(names.length, "blocker")}: </span>
      <ul class="inline">{names.map((name) => <li key={name}>{areNodes && isName(name) ? <a href="/console/nodes">{name}</a> : <Blocker store={store} name={name} />}</li>)}</ul>
    </div>
  );
}

/** A blocker is the resource name of a job, its id in this project, or a sentence. */
function Blocker({ store, name }: { store: JobStore; name: string }) {
  return isName(name) ? <a href={jobPath(store.project, name)}>{name}</a> : <JobLink name={name} />;
}

function isName(text: string): boolean {
  return /^[\w.-]+$/.test(text);
}
