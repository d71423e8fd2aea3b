/** How far a running job is: its step, its rate beside the predicted one, the use of its GPUs, its cost so far. */

import { formatDuration } from "../../core/format";
import { comparePace, formatCost, formatShare, formatSteps, formatStepTime, readCost, remainingSeconds } from "../../core/observed";
import type { JobSummary, ProgressRow } from "../../net/types";
import { useProgress } from "../../ui/progress";
import type { JobStore } from "./data";

export function Progress({ store, summary }: { store: JobStore; summary: JobSummary }) {
  const row = useProgress(store.project, { job: store.job }).get(summary.name);
  return row ? <Facts row={row} /> : null;
}

function Facts({ row }: { row: ProgressRow }) {
  const left = remainingSeconds(row);
  const steps = formatSteps(row);
  const share = row.step !== null && row.total ? row.step / row.total : null;
  return (
    <p class="job-facts job-progress">
      {share !== null && <meter min={0} max={1} value={share} aria-label="Progress" />}
      {steps ? <span>step <b class="num">{steps}</b></span> : <span>reports no steps</span>}
      {row.step_s !== null && <span class="num">{formatStepTime(row.step_s)} a step{row.predicted_step_s === null ? "" : `, predicted ${formatStepTime(row.predicted_step_s)} (${comparePace(row.step_s, row.predicted_step_s)})`}</span>}
      {left !== null && <span class="num">{formatDuration(left)} to go</span>}
      {row.gpu_use !== null && <span class="num">GPUs in use {formatShare(row.gpu_use)}</span>}
      {row.cost && <span class="num">cost so far {formatCost(readCost(row.cost))}</span>}
    </p>
  );
}
