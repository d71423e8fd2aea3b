/** The scalars of a job: what its event files and `progress()` say, a chart for each name. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { isEnded } from "../../core/queue";
import { jobResource } from "../../core/route";
import { callApi } from "../../net/api";
import type { JobScalars } from "../../net/types";
import { lazy } from "../../ui/lazy";
import { ErrorNotice } from "../../ui/notice";
import { useRefreshed } from "../../ui/resource";
import { isStudy, type TabProps } from "./tab";

/** The code of the charts is loaded while the values are read. */
const ScalarCharts = lazy(() => import("../../ui/scalar_charts"));

/** Curves of a job that runs are read again so often. */
const REFRESH_MS = 15000;
/** The server reads large event files over several calls. */
const PART_MS = 1000;

export default function Metrics({ store, summary, document }: TabProps) {
  const path = jobResource(store.project, store.job);
  const isWhole = useSignal(false);
  const everyMs = !isWhole.value ? PART_MS : isEnded(summary) ? 0 : REFRESH_MS;
  const scalars = useRefreshed(`scalars ${summary.uid}`, everyMs, (signal) =>
    callApi<JobScalars>("GET", `${path}/scalars`, { query: { points: 200 }, signal }));
  const answer = scalars.value.value;
  useEffect(() => {
    if (answer) isWhole.value = answer.complete;
  }, [answer]);
  const error = scalars.error.value;
  return (
    <section aria-label="Metrics">
      {error && <ErrorNotice error={error} retry={scalars.reload} />}
      {!answer && !error && <p class="loading" role="status">Loading…</p>}
      {answer && !answer.complete && <p class="hint" role="status">The server is reading the event files; more values follow.</p>}
      {answer && <ScalarCharts jobs={[{ name: summary.displayName, series: answer.series }]} leftOut={answer.left_out} none={!isStudy(summary, document.value.value) && <NoScalars />} />}
    </section>
  );
}

function NoScalars() {
  return (
    <p>
      The job has written no values yet. They come from event files of TensorBoard below its log directory (<code>AIP_TENSORBOARD_LOG_DIR</code>, or the
      job directory), and from <code>progress(step=…, loss=…)</code> of <code>trainshed_trainer</code>.
    </p>
  );
}
