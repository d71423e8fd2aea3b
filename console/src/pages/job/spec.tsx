/** What a job asked for: its document in the words of its API, and the cluster it stands for. */

import { useSignal } from "@preact/signals";

import { showHidden } from "../../core/hidden";
import type { ClusterMachines, StoredDocument } from "../../net/types";
import { copyText } from "../../ui/clipboard";
import { ErrorNotice } from "../../ui/notice";
import type { Resource } from "../../ui/resource";

export function Spec({ document }: { document: Resource<StoredDocument> }) {
  const isJson = useSignal(false);
  const content = document.value.value;
  if (document.error.value) return <ErrorNotice error={document.error.value} retry={document.reload} />;
  if (content === null) return <p class="loading" role="status">Loading…</p>;
  const text = isJson.value ? JSON.stringify(content.document, null, 2) : content.text;
  return (
    <section aria-label="Spec">
      <p class="job-beside">
        <label><input type="radio" name="spec" checked={!isJson.value} onChange={() => (isJson.value = false)} /> YAML to submit again</label>
        <label><input type="radio" name="spec" checked={isJson.value} onChange={() => (isJson.value = true)} /> JSON as submitted</label>
        <button type="button" onClick={() => void copyText(text, "document")}>Copy</button>
      </p>
      <ClusterTable cluster={content.cluster} />
      <pre class="job-spec" tabIndex={0}>{showHidden(text)}</pre>
    </section>
  );
}

function ClusterTable({ cluster }: { cluster: readonly ClusterMachines[] }) {
  if (cluster.length === 0) return null;
  return (
    <table>
      <thead><tr><th>Role</th><th>Replicas</th><th>Machine</th><th>vCPUs</th><th>Memory</th><th>Accelerators</th></tr></thead>
      <tbody>
        {cluster.map((row) => (
          <tr key={row.role}>
            <td>{row.role}</td>
            <td class="num">{row.count}</td>
            <td>{row.machineType ?? "–"}</td>
            <td class="num">{row.vcpus ?? "–"}</td>
            <td class="num">{row.memoryGigabytes ? `${row.memoryGigabytes} GB` : "–"}</td>
            <td>{row.acceleratorType ? `${row.acceleratorCount} × ${row.acceleratorType}` : "–"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
