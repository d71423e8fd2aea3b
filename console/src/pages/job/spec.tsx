/** What a job asked for: its document in the words of its API, and the cluster it stands for. */

import { useSignal } from "@preact/signals";

import { showHidden } from "../../core/format";
import { callApi } from "../../net/api";
import type { JobSummary } from "../../net/types";
import { copyText } from "../../ui/clipboard";
import { ErrorNotice } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import type { JobDocument, JobStore } from "./data";

export function Spec({ store, summary }: { store: JobStore; summary: JobSummary }) {
  const isJson = useSignal(false);
  const document = useResource(`${summary.uid} spec`, (signal) => callApi<JobDocument>("GET", `${store.resource}/document`, { signal }));
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
      <pre class="job-spec" tabIndex={0}>{showLines(text)}</pre>
    </section>
  );
}

/** Replace hidden characters, but not the ends of lines. */
function showLines(text: string): string {
  return text.split("\n").map(showHidden).join("\n");
}

/** The machines of the cluster; the columns are the fields that the server returns. */
function ClusterTable({ cluster }: { cluster: JobDocument["cluster"] }) {
  const names = [...new Set(cluster.flatMap((row) => Object.keys(row)))];
  if (cluster.length === 0) return null;
  return (
    <table>
      <thead><tr>{names.map((name) => <th key={name}>{titleOf(name)}</th>)}</tr></thead>
      <tbody>{cluster.map((row, index) => <tr key={index}>{names.map((name) => <td key={name}>{textOf(row[name])}</td>)}</tr>)}</tbody>
    </table>
  );
}

/** Return "Machine type" for machineType. */
function titleOf(name: string): string {
  const words = name.replace(/([A-Z])/g, (letter) => ` ${letter.toLowerCase()}`);
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "object") return showHidden(String(value));
  const pairs = Object.entries(value as Record<string, unknown>);
  return pairs.length === 0 ? "–" : pairs.map(([name, count]) => showHidden(`${String(count)} × ${name}`)).join(", ");
}
