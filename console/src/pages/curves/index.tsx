/** The curves of two to eight jobs over each other, by step or by time. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { shorten } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { isEnded } from "../../core/queue";
import { CURVES_MAX, curvesPath, jobPath, jobResource, type Route } from "../../core/route";
import { navigate } from "../../core/router";
import type { NamedScalars } from "../../core/scalars";
import { ApiError, callApi } from "../../net/api";
import type { JobScalars, JobSummary } from "../../net/types";
import { JobChoice } from "../../ui/job_choice";
import { ErrorNotice, Notice } from "../../ui/notice";
import { useRefreshed } from "../../ui/resource";
import ScalarCharts from "../../ui/scalar_charts";
import { StateMark } from "../../ui/state";

const REFRESH_MS = 15000;
const PART_MS = 1000;

interface JobCurves {
  /** PROJECT/JOB */
  name: string;
  summary: JobSummary | null;
  scalars: JobScalars | null;
  problem: string;
}

export default function CurvesPage({ route }: { route: Route }) {
  const names = [...new Set(route.query.getAll("job"))].slice(0, CURVES_MAX);
  const curves = useCurves(names);
  const jobs = curves.value.value;
  const error = curves.error.value;
  return (
    <main id="main" tabIndex={-1} class="curves">
      <h1>Curves of several jobs</h1>
      <Chosen names={names} jobs={jobs ?? []} />
      {error && <ErrorNotice error={error} retry={curves.reload} />}
      {names.length === 0 && <p>Choose jobs: type a part of a job's name, and take one of the suggestions. In the queue, select two to eight rows and press Curves.</p>}
      {names.length > 0 && !jobs && !error && <p class="loading" role="status">Loading…</p>}
      {jobs && names.length > 0 && <Charts jobs={jobs} />}
    </main>
  );
}

/** Read the scalars of the jobs, again while one of them runs or its files are being read. */
function useCurves(names: readonly string[]) {
  const everyMs = useSignal(REFRESH_MS);
  const curves = useRefreshed(`curves ${names.join(" ")}`, everyMs.value, (signal) => Promise.all(names.map((name) => readCurves(name, signal))));
  const jobs = curves.value.value;
  useEffect(() => {
    const isReading = jobs?.some(({ scalars }) => scalars?.complete === false) ?? false;
    const isOpen = jobs?.some(({ summary }) => summary !== null && !isEnded(summary)) ?? true;
    everyMs.value = isReading ? PART_MS : isOpen ? REFRESH_MS : 0;
  }, [jobs]);
  return curves;
}

async function readCurves(name: string, signal: AbortSignal): Promise<JobCurves> {
  const [project = "", job = ""] = splitName(name);
  const path = jobResource(project, job);
  try {
    const [summary, scalars] = await Promise.all([
      callApi<JobSummary>("GET", path, { signal }), callApi<JobScalars>("GET", `${path}/scalars`, { query: { points: 200 }, signal }),
    ]);
    return { name, summary, scalars, problem: "" };
  } catch (error) {
    if (!(error instanceof ApiError) || error.isAway) throw error;
    return { name, summary: null, scalars: null, problem: error.message };
  }
}

function splitName(name: string): readonly [string, string] {
  const at = name.indexOf("/");
  return at < 0 ? ["", name] : [name.slice(0, at), name.slice(at + 1)];
}

function Chosen({ names, jobs }: { names: readonly string[]; jobs: readonly JobCurves[] }) {
  const show = (next: readonly string[]): void => {
    const query = new URLSearchParams(location.search);
    query.delete("job");
    for (const name of next) query.append("job", name);
    navigate(`${curvesPath([])}${query.toString()}`, { replace: true });
  };
  return (
    <div class="tools">
      <ul class="chosen-jobs" aria-label="Jobs">
        {names.map((name) => <ChosenJob key={name} name={name} job={jobs.find((one) => one.name === name)} onRemove={() => show(names.filter((other) => other !== name))} />)}
      </ul>
      {names.length < CURVES_MAX && <JobChoice label="Add" value="" onChange={(name) => /^[^/]+\/[^/]+$/.test(name) && show([...names, name])} />}
    </div>
  );
}

function ChosenJob({ name, job, onRemove }: { name: string; job: JobCurves | undefined; onRemove: () => void }) {
  const [project, id] = splitName(name);
  return (
    <li>
      <a href={jobPath(project, id)} title={name}>{showHidden(job?.summary?.displayName ?? id)}</a>
      {job?.summary && <StateMark state={job.summary.state} />}
      <button type="button" class="plain" aria-label={`Remove ${name}`} onClick={onRemove}>✕</button>
    </li>
  );
}

function Charts({ jobs }: { jobs: readonly JobCurves[] }) {
  const named = useMemo(() => namesOf(jobs), [jobs]);
  const problems = jobs.filter(({ problem }) => problem);
  const leftOut = useMemo(() => describeLeftOut(jobs), [jobs]);
  return (
    <>
      {problems.map(({ name, problem }) => <Notice key={name} tone="error">{showHidden(`${name}: ${problem}`)}</Notice>)}
      <ScalarCharts jobs={named} leftOut={leftOut} none={<p>None of these jobs has written values yet.</p>} />
    </>
  );
}

/** Return each sentence about values that are not shown once, after the names of its jobs. */
function describeLeftOut(jobs: readonly JobCurves[]): string[] {
  const titles = new Map<string, string[]>();
  for (const { name, summary, scalars } of jobs) {
    for (const line of scalars?.left_out ?? []) titles.set(line, [...(titles.get(line) ?? []), summary?.displayName ?? name]);
  }
  return [...titles].map(([line, names]) => (names.length === jobs.length ? line : `${names.map((name) => shorten(name, 40)).join(", ")}: ${line}`));
}

/** Return the series of each job by its display name; with its id too where two jobs have one name. */
function namesOf(jobs: readonly JobCurves[]): NamedScalars[] {
  const titles = jobs.map(({ name, summary }) => summary?.displayName ?? name);
  return jobs.map(({ name, scalars }, index) => {
    const title = titles[index] ?? name;
    const isAlone = titles.filter((other) => other === title).length === 1;
    return { name: isAlone ? title : `${title} (${splitName(name)[1]})`, series: scalars?.series ?? [] };
  });
}
