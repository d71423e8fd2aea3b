/** What a job uses of its machines: GPUs, CPUs, memory, disks; it stays after the end. */

import { isEnded } from "../../core/queue";
import { jobResource } from "../../core/route";
import { callApi } from "../../net/api";
import type { JobUsage } from "../../net/types";
import { lazy } from "../../ui/lazy";
import { ErrorNotice } from "../../ui/notice";
import { useRefreshed } from "../../ui/resource";
import type { TabProps } from "./tab";

/** The code of the charts is loaded while the figures are read. */
const UsageCharts = lazy(() => import("./usage_charts"));

const REFRESH_MS = 15000;

export default function Usage({ store, summary }: TabProps) {
  const path = jobResource(store.project, store.job);
  const usage = useRefreshed(`usage ${summary.uid}`, isEnded(summary) ? 0 : REFRESH_MS, (signal) =>
    callApi<JobUsage>("GET", `${path}/usage`, { query: { points: 200 }, signal }));
  const answer = usage.value.value;
  const error = usage.error.value;
  return (
    <section aria-label="Usage">
      {error && <ErrorNotice error={error} retry={usage.reload} />}
      {!answer && !error && <p class="loading" role="status">Loading…</p>}
      {answer && <UsageCharts usage={answer} />}
    </section>
  );
}
