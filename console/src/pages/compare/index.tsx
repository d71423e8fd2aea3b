/** Two jobs side by side: what differs in what they asked for, were told, took, and ran on. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { showHidden } from "../../core/hidden";
import { jobPath, jobResource, type Route } from "../../core/route";
import { setQuery } from "../../core/router";
import { ApiError, callApi } from "../../net/api";
import type { JobSummary, Manifest, StoredDocument } from "../../net/types";
import { ErrorNotice, Notice } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { StateMark } from "../../ui/state";
import { readReplicas, type PlannedReplica } from "../job/replicas";
import { DifferenceTable } from "./difference_table";
import { compareTexts, flatten } from "./differences";
import { JobChoice } from "../../ui/job_choice";
import { machinesOf, timesOf } from "./times";

/** A job with its documents; a document that cannot be read is null, with the reason. */
interface ComparedJob {
  readonly summary: JobSummary;
  readonly document: StoredDocument | null;
  readonly replicas: readonly PlannedReplica[];
  readonly problem: string;
}

export default function ComparePage({ route }: { route: Route }) {
  const left = route.query.get("left") ?? "";
  const right = route.query.get("right") ?? "";
  const problem = nameProblem("Left", left) ?? nameProblem("Right", right);
  return (
    <main id="main" tabIndex={-1} class="compare">
      <h1>Two jobs side by side</h1>
      <p class="job-beside">
        <JobChoice label="Left" value={left} onChange={(name) => setQuery({ left: name })} />
        <button type="button" title="Exchange the sides" aria-label="Exchange the sides" onClick={() => setQuery({ left: right, right: left })}>⇄</button>
        <JobChoice label="Right" value={right} onChange={(name) => setQuery({ right: name })} />
      </p>
      {problem && <Notice tone="error">{problem}</Notice>}
      {!problem && (left && right ? <Comparison left={left} right={right} /> : <p>Choose two jobs: type a part of a job's name, and take one of the suggestions.</p>)}
    </main>
  );
}

function Comparison({ left, right }: { left: string; right: string }) {
  const first = useResource(`compare ${left}`, (signal) => readJob(left, signal));
  const second = useResource(`compare ${right}`, (signal) => readJob(right, signal));
  const error = first.error.value ?? second.error.value;
  if (error) return <ErrorNotice error={error} />;
  if (!first.value.value || !second.value.value) return <p class="loading" role="status">Loading…</p>;
  return <Differences left={first.value.value} right={second.value.value} names={[left, right]} />;
}

async function readJob(name: string, signal: AbortSignal): Promise<ComparedJob> {
  const [project = "", job = ""] = splitName(name);
  const path = jobResource(project, job);
  const problems: string[] = [];
  const optional = async <T,>(part: string): Promise<T | null> => {
    try {
      return await callApi<T>("GET", `${path}/${part}`, { signal });
    } catch (error) {
      if (!(error instanceof ApiError) || error.isAway) throw error;
      problems.push(error.message);
      return null;
    }
  };
  const [summary, document, manifest] = await Promise.all([
    callApi<JobSummary>("GET", path, { signal }), optional<StoredDocument>("document"), optional<Manifest>("manifest"),
  ]);
  return { summary, document, replicas: manifest ? readReplicas(manifest.parts) : [], problem: problems.join("; ") };
}

/** Return what is wrong with the name of a side; null without a name, and for PROJECT/JOB. */
function nameProblem(side: string, name: string): string | null {
  const isName = name === "" || /^[^/]+\/[^/]+$/.test(name);
  return isName ? null : `${side} must be PROJECT/JOB, got ${showHidden(name)}: take one of the suggestions.`;
}

/** Return the project and the job of "P/J". */
function splitName(name: string): readonly string[] {
  const at = name.indexOf("/");
  return at < 0 ? ["", name] : [name.slice(0, at), name.slice(at + 1)];
}

function Differences({ left, right, names }: { left: ComparedJob; right: ComparedJob; names: readonly [string, string] }) {
  const titles = [showHidden(left.summary.displayName), showHidden(right.summary.displayName)] as const;
  const document = useMemo(() => compareTexts(flatten(left.document?.document ?? {}), flatten(right.document?.document ?? {})), [left, right]);
  const times = useMemo(() => compareTexts(timesOf(left.summary), timesOf(right.summary)), [left, right]);
  const machines = useMemo(() => compareTexts(machinesOf(left.summary), machinesOf(right.summary)), [left, right]);
  return (
    <>
      <div class="compare-heads">
        {[left, right].map((side, index) => <Head key={index} side={side} name={names[index] ?? ""} />)}
      </div>
      <DifferenceTable caption="Spec" left={titles[0]} right={titles[1]} rows={document} />
      <EnvironmentDifferences left={left} right={right} titles={titles} />
      <DifferenceTable caption="Times and end" left={titles[0]} right={titles[1]} rows={times} />
      <DifferenceTable caption="Machines" left={titles[0]} right={titles[1]} rows={machines} />
    </>
  );
}

function Head({ side, name }: { side: ComparedJob; name: string }) {
  const [project = "", job = ""] = splitName(name);
  return (
    <div>
      <a href={jobPath(project, job)}>{showHidden(side.summary.displayName)}</a> <StateMark state={side.summary.state} />
      {side.summary.error && <p>{showHidden(side.summary.error)}</p>}
      {side.problem && <p class="hint">Not compared: {showHidden(side.problem)}.</p>}
    </div>
  );
}

function EnvironmentDifferences({ left, right, titles }: { left: ComparedJob; right: ComparedJob; titles: readonly [string, string] }) {
  const task = useSignal("");
  const tasks = [...new Set([...left.replicas, ...right.replicas].map((replica) => replica.task))];
  if (tasks.length === 0) return null;
  const chosen = task.value || tasks[0];
  const variablesOf = (side: ComparedJob): ReadonlyMap<string, string> =>
    side.replicas.find((replica) => replica.task === chosen)?.variables ?? new Map<string, string>();
  return (
    <>
      <p>
        <label>
          Environment of{" "}
          <select value={chosen} onChange={(event) => (task.value = event.currentTarget.value)}>
            {tasks.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
      </p>
      <DifferenceTable caption="Environment" left={titles[0]} right={titles[1]} rows={compareTexts(variablesOf(left), variablesOf(right))} />
    </>
  );
}
