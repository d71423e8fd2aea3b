/** Alerts: what a person should look at, for installations without Prometheus. */

import { parseResource } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { jobPath } from "../../core/route";
import type { AlertAnswer } from "../../net/types";
import { alerts, alertsError, readAlerts } from "../../ui/alerts";
import { ErrorNotice, sentence } from "../../ui/notice";
import { Span, Time } from "../../ui/time";

const TITLES: Readonly<Record<AlertAnswer["kind"], string>> = {
  REPLICA_HUNG: "replica hangs", GPU_HELD_IDLE: "GPU held and idle", QUEUE_STUCK: "queue stuck", NODE_LOST: "node lost", DISK_NEARLY_FULL: "disk nearly full",
};

export default function AlertsPage() {
  const rows = alerts.value;
  const error = alertsError.value;
  return (
    <main id="main" tabIndex={-1} class="alerts">
      <h1>Alerts</h1>
      {error && <ErrorNotice error={error} retry={() => void readAlerts()} />}
      {!rows && !error && <p class="loading" role="status">Loading…</p>}
      {rows?.length === 0 && <p>Nothing needs a look: no replica hangs, no GPU is held and idle for 30 minutes, the queue moves, all nodes report, and the disks have room.</p>}
      {rows && rows.length > 0 && <Table rows={rows} />}
      <p class="hint">GPUs and disks are those of the answering server's machine. The page asks once a minute.</p>
    </main>
  );
}

function Table({ rows }: { rows: readonly AlertAnswer[] }) {
  return (
    <div class="scroll">
      <table class="list">
        <thead><tr><th>Alert</th><th>What</th><th>Since</th><th>Measured, and what to do</th></tr></thead>
        <tbody>
          {rows.map((alert) => (
            <tr key={`${alert.kind} ${alert.subject}`}>
              <th scope="row"><span class="sign" aria-hidden="true">▲</span> {TITLES[alert.kind]}</th>
              <td class="wrap"><a href={pathOf(alert)}>{showHidden(alert.subject)}</a></td>
              <td><Time value={alert.since} /> (<Span start={alert.since} />)</td>
              <td class="wrap">{sentence(showHidden(alert.message))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Return the address of what an alert is about: its job, else the page that the server names. */
function pathOf({ job, page }: AlertAnswer): string {
  const parts = parseResource(job ?? "");
  if (parts) return jobPath(parts.project, parts.job);
  return page.startsWith("/console/") ? page : "/console/";
}
