/** Groups the series of one or several jobs into charts. Pure. */

import type { JobUsage, ScalarCurve, UsageCurve } from "../net/types";
import { linesOf, readSteps, readTimes, summarize, type Axis, type CurvePoint, type Line, type Mark } from "./curves";
import { shorten } from "./format";
import { formatUnit } from "./observed";

/** The series of one job, and the name of its lines. */
export interface NamedScalars {
  name: string;
  series: readonly ScalarCurve[];
}

/** A small chart. */
export interface LineChart {
  title: string;
  sentence: string;
  unit: string;
  lines: Line[];
  marks: Mark[];
}

export interface ScalarView {
  axis: Axis;
  /** The weight of the smoothing, 0 for none. */
  weight: number;
  /** A part of the names of the charts that are shown. */
  text: string;
}

interface Group {
  title: string;
  parts: { name: string; attempt: number; points: CurvePoint[] }[];
}

const byName = (left: string, right: string): number => left.localeCompare(right, undefined, { numeric: true });

/** Return a chart for each name of a scalar, with a line for each run of each job. Series without points have none. */
export function scalarCharts(jobs: readonly NamedScalars[], view: ScalarView): LineChart[] {
  const groups = groupScalars(jobs, view.text.trim().toLowerCase());
  const starts = startsOf(groups);
  const charts = groups.map(({ title, parts }): LineChart => {
    const names = [...new Set(parts.map(({ name }) => name))];
    const lines = parts.flatMap(({ name, points }) =>
      linesOf(points, { name, tone: names.indexOf(name), axis: view.axis, start: starts.get(name) ?? 0, weight: view.weight }));
    const count = new Set(parts.map(({ attempt }) => attempt)).size;
    const sentence = [`${parts.reduce((sum, { points }) => sum + points.length, 0)} points`, jobs.length === 1 && count > 1 ? `${count} attempts` : ""];
    return { title, unit: "", lines, marks: jobs.length === 1 ? scalarMarks(parts, view.axis, starts) : [], sentence: sentence.filter(Boolean).join(" of ") };
  });
  return charts.filter(({ lines }) => lines.length > 0);
}

function groupScalars(jobs: readonly NamedScalars[], text: string): Group[] {
  const groups = new Map<string, Group>();
  const sources = new Map<string, Set<string>>();
  for (const { series } of jobs) for (const { name, source } of series) sources.set(name, (sources.get(name) ?? new Set()).add(source));
  const runs = new Set(jobs.flatMap(({ series }) => series.map(({ run }) => run)));
  for (const job of jobs) {
    for (const { name, source, run, attempt, points } of job.series) {
      if (text && !name.toLowerCase().includes(text)) continue;
      const title = (sources.get(name)?.size ?? 0) > 1 ? `${name} (${source})` : name;
      const group = groups.get(title) ?? { title, parts: [] };
      group.parts.push({ name: lineName(jobs.length > 1 ? job.name : "", runs.size > 1 ? run : ""), attempt, points: readSteps(points) });
      groups.set(title, group);
    }
  }
  return [...groups.values()].sort((left, right) => byName(left.title, right.title));
}

const lineName = (job: string, run: string): string => [job, run].filter(Boolean).join(" · ");

/** Return the first time of each line's name over all charts, so that all begin at one moment. */
function startsOf(groups: readonly Group[]): Map<string, number> {
  const starts = new Map<string, number>();
  for (const { parts } of groups) {
    for (const { name, points } of parts) for (const { at } of points) starts.set(name, Math.min(starts.get(name) ?? Infinity, at));
  }
  return starts;
}

/** Return a mark at the first point of each attempt but the first. */
function scalarMarks(parts: Group["parts"], axis: Axis, starts: ReadonlyMap<string, number>): Mark[] {
  const firsts = new Map<number, number>();
  for (const { name, attempt, points } of parts) {
    const point = points[0];
    const x = axis === "step" ? point?.step : axis === "since" ? (point?.at ?? 0) - (starts.get(name) ?? 0) : point?.at;
    if (point && typeof x === "number") firsts.set(attempt, Math.min(firsts.get(attempt) ?? Infinity, x));
  }
  const [, ...later] = [...firsts].sort(([left], [right]) => left - right);
  return later.map(([attempt, x]) => ({ x, text: `attempt ${attempt}` }));
}

/** Titles of the series of use, in the order of the page. */
const USAGE_TITLES: readonly (readonly [string, string])[] = [
  ["gpu_use", "GPU use"], ["gpu_memory", "GPU memory"], ["gpu_power", "GPU power"], ["gpu_temperature", "GPU temperature"],
  ["cpu", "CPU"], ["memory", "Memory"], ["read", "Reads"], ["written", "Writes"], ["processes", "Processes"], ["step", "Step"],
];

/** Return a chart for each kind of use, with a line for each replica or GPU. */
export function usageCharts(usage: JobUsage): LineChart[] {
  const groups = new Map<string, UsageCurve[]>();
  for (const series of usage.series) groups.set(series.name, [...(groups.get(series.name) ?? []), series]);
  const order = USAGE_TITLES.map(([key]) => key);
  const rank = (key: string): number => (order.includes(key) ? order.indexOf(key) : order.length);
  const marks = usage.attempts.filter(({ attempt }) => attempt > 1).map(({ attempt, start }) => ({ x: start, text: `attempt ${attempt}` }));
  const keys = [...groups.keys()].sort((left, right) => rank(left) - rank(right) || byName(left, right));
  return keys.map((key) => usageChart(USAGE_TITLES[rank(key)]?.[1] ?? key, groups.get(key) ?? [], marks)).filter(({ lines }) => lines.length > 0);
}

function usageChart(title: string, all: readonly UsageCurve[], marks: Mark[]): LineChart {
  const names = [...new Set(all.map(usageLineName))].sort(byName);
  const unit = all[0]?.unit ?? "";
  const lines = all.flatMap((series) => linesOf(readTimes(series.points), { name: usageLineName(series), tone: names.indexOf(usageLineName(series)), axis: "time", start: 0 }));
  const summary = summarize(lines);
  const sentence = summary ? `mean ${formatUnit(summary.mean, unit)}, highest ${formatUnit(summary.highest, unit)}` : "";
  return { title, unit, lines, marks, sentence };
}

/** Return the replica, for a GPU with the first characters of its uuid. */
function usageLineName({ task, gpu }: UsageCurve): string {
  return [task ?? "", gpu ? shorten(gpu.replace(/^GPU-/, ""), 9) : ""].filter(Boolean).join(" · ");
}
