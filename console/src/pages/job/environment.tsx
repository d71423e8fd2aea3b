/** What each replica was told: environment, command, limits, hosts; two replicas side by side. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { showHidden } from "../../core/hidden";
import { callApi } from "../../net/api";
import type { JobSummary, Manifest } from "../../net/types";
import { copyText } from "../../ui/clipboard";
import { ErrorNotice } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { TextChoice } from "../../ui/text_choice";
import { DifferenceTable } from "../compare/difference_table";
import { compareTexts } from "../compare/differences";
import type { JobStore } from "./data";
import { exportLines, otherParts, readReplicas, type PlannedReplica } from "./replicas";

/** Return the attempt that a text names, at most the last one; the last one for another text. */
function readAttempt(text: string, last: number): number {
  return /^\d+$/.test(text) ? Math.min(Math.max(1, Number(text)), last) : last;
}

export function Environment({ store, summary }: { store: JobStore; summary: JobSummary }) {
  const attempt = useSignal(summary.attempt);
  const manifest = useResource(`${summary.uid} ${attempt.value} ${summary.state}`, (signal) =>
    callApi<Manifest>("GET", `${store.resource}/manifest`, { query: { attempt: attempt.value || null }, signal }));
  const content = manifest.value.value;
  const error = manifest.error.value;
  return (
    <section aria-label="Environment">
      {summary.attempt > 1 && (
        <label>
          Attempt{" "}
          <TextChoice class="short" inputMode="numeric" value={String(attempt.value)} onChoose={(text) => (attempt.value = readAttempt(text, summary.attempt))} />
        </label>
      )}
      {error && <ErrorNotice error={error} retry={manifest.reload} />}
      {content && <Sent manifest={content} />}
      {!content && !error && <p class="loading" role="status">Loading…</p>}
    </section>
  );
}

function Sent({ manifest }: { manifest: Manifest }) {
  return (
    <>
      <p class="hint">What the server sent to the engine {manifest.engine} for attempt {manifest.attempt}. Secrets are not shown.</p>
      <Replicas manifest={manifest} />
      {otherParts(manifest.parts).map((part) => (
        <details key={part.name} class="job-sent">
          <summary>{part.name}</summary>
          <pre tabIndex={0}>{showHidden(part.text)}</pre>
        </details>
      ))}
    </>
  );
}

function Replicas({ manifest }: { manifest: Manifest }) {
  const replicas = useMemo(() => readReplicas(manifest.parts), [manifest]);
  const left = useSignal("");
  const right = useSignal<string | null>(null);
  const first = replicas.find((replica) => replica.task === left.value) ?? replicas[0];
  const other = right.value ?? replicas[1]?.task ?? "";
  const second = replicas.find((replica) => replica.task === other) ?? null;
  if (!first) return null;
  return (
    <>
      <p class="job-beside">
        <ReplicaChoice label="Replica" replicas={replicas} value={first.task} onChange={(task) => (left.value = task)} />
        {replicas.length > 1 && <ReplicaChoice label="beside" replicas={replicas} value={other} none onChange={(task) => (right.value = task)} />}
        <button type="button" onClick={() => void copyText(exportLines(first.variables), `variables of ${first.task}`)}>Copy as export</button>
      </p>
      <Tables first={first} second={second} />
    </>
  );
}

function Tables({ first, second }: { first: PlannedReplica; second: PlannedReplica | null }) {
  const none = new Map<string, string>();
  const tables = [
    ["Environment variables", first.variables, second?.variables ?? none],
    ["Command, limits and hosts", first.settings, second?.settings ?? none],
  ] as const;
  return (
    <>
      {tables.map(([caption, left, right]) => (
        <DifferenceTable key={caption} caption={caption} left={first.task} right={second?.task ?? ""} hasRight={second !== null}
          rows={second ? compareTexts(left, right) : compareTexts(left, left)} />
      ))}
    </>
  );
}

function ReplicaChoice(props: { label: string; replicas: readonly PlannedReplica[]; value: string; none?: boolean; onChange: (task: string) => void }) {
  return (
    <label>
      {props.label}{" "}
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.none && <option value="-">no other</option>}
        {props.replicas.map(({ task }) => <option key={task} value={task}>{task}</option>)}
      </select>
    </label>
  );
}
