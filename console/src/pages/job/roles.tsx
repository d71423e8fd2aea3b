/** The replicas of a job's newest attempt: their node, state and exit. */

import { useSignal } from "@preact/signals";

import { formatCount } from "../../core/format";
import { jobPath } from "../../core/route";
import type { JobSummary, ReplicaRow } from "../../net/types";
import type { JobStore } from "./data";

/** More rows than this appear on request. */
const SHOWN = 50;

export function Roles({ store, summary }: { store: JobStore; summary: JobSummary }) {
  const isAll = useSignal(false);
  const rows = failedFirst(summary.replicas);
  const shown = isAll.value ? rows : rows.slice(0, SHOWN);
  return (
    <section class="job-panel" aria-label="Replicas">
      <h2>Replicas <span class="hint">{countStates(rows)}</span></h2>
      {rows.length === 0 ? <p class="hint">The job has no replicas yet.</p> : (
        <div class="scroll">
          <table>
            <thead><tr><th>Task</th><th>Node</th><th>State</th><th>Exit</th></tr></thead>
            <tbody>{shown.map((row) => <RoleRow key={row.taskName} row={row} store={store} />)}</tbody>
          </table>
          {shown.length < rows.length && <button type="button" onClick={() => (isAll.value = true)}>Show all {formatCount(rows.length)}</button>}
        </div>
      )}
    </section>
  );
}

function RoleRow({ row, store }: { row: ReplicaRow; store: JobStore }) {
  const log = `${jobPath(store.project, store.job)}?task=${encodeURIComponent(row.taskName)}`;
  return (
    <tr class={row.state === "FAILED" ? "failed" : ""}>
      <td><a href={log} title="Show its lines in the log">{row.taskName}</a></td>
      <td>{row.node ? <a href="/console/nodes">{row.node}</a> : "–"}</td>
      <td>{row.state.toLowerCase()}</td>
      <td>{exitText(row)}</td>
    </tr>
  );
}

/** Return "0", "1", or "signal 9" for a replica that ended. */
function exitText(row: ReplicaRow): string {
  if (row.signal !== null && row.signal !== undefined) return `signal ${row.signal}`;
  return row.exitCode === null || row.exitCode === undefined ? "–" : String(row.exitCode);
}

function failedFirst(rows: readonly ReplicaRow[]): readonly ReplicaRow[] {
  const failed = rows.filter((row) => row.state === "FAILED");
  return [...failed, ...rows.filter((row) => row.state !== "FAILED")];
}

function countStates(rows: readonly ReplicaRow[]): string {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(row.state, (counts.get(row.state) ?? 0) + 1);
  return [...counts].map(([state, count]) => `${formatCount(count)} ${state.toLowerCase()}`).join(", ");
}
