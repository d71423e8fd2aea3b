/** Values, ranks and ranges of a study's trials. Pure. */

import type { StudyDescription, StudyMetric, TrialSummary } from "../net/types";
import { formatNumber, quote } from "./format";
import { showHidden } from "./hidden";

/** A trial with a value of the chosen metric. */
export interface Rated {
  trial: TrialSummary;
  value: number;
}

/** Return the final value of a metric; null for a trial that has not succeeded or has no finite value. */
export function finalValue(trial: TrialSummary, metric: string): number | null {
  const value = trial.metrics[metric];
  return trial.state === "SUCCEEDED" && typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** Return the trials with a final value, by number. */
export function rate(trials: readonly TrialSummary[], metric: string): Rated[] {
  const rated: Rated[] = [];
  for (const trial of trials) {
    const value = finalValue(trial, metric);
    if (value !== null) rated.push({ trial, value });
  }
  return rated;
}

/** Return whether a metric's value `left` is better than `right`. */
export function isBetter(metric: StudyMetric, left: number, right: number): boolean {
  return metric.goal === "MAXIMIZE" ? left > right : left < right;
}

/** Return for each rated trial the best safe value up to it; null before the first safe one. */
export function bestSoFar(rated: readonly Rated[], metric: StudyMetric): (number | null)[] {
  let best: number | null = null;
  return rated.map(({ trial, value }) => {
    if (!isBeyondLimit(trial) && (best === null || isBetter(metric, value, best))) best = value;
    return best;
  });
}

/** Return whether the result of a trial breaks a limit. */
export function isBeyondLimit(trial: TrialSummary): boolean {
  return (trial.brokenLimits ?? []).length > 0;
}

/** Describe which first point a trial has, such as "line 3 of points.csv". */
export function describePlace(place: NonNullable<TrialSummary["firstPoint"]>): string {
  return showHidden(place.source ?? "") || `point ${place.position}`;
}

/** Describe why a trial has its values; "" if the search chose them. */
export function describeOrigin(trial: TrialSummary): string {
  if (trial.origin === "DEFAULTS") return "defaults";
  if (trial.origin !== "FIRST_POINT") return "";
  return trial.firstPoint ? `enqueued (${describePlace(trial.firstPoint)})` : "enqueued";
}

/** Return the best `percent` of the rated trials, at least one, the best first. */
export function bestShare(rated: readonly Rated[], metric: StudyMetric, percent: number): Rated[] {
  const sign = metric.goal === "MAXIMIZE" ? -1 : 1;
  const sorted = [...rated].sort((left, right) => sign * (left.value - right.value) || left.trial.number - right.trial.number);
  return sorted.slice(0, Math.max(1, Math.ceil((sorted.length * percent) / 100)));
}

type AxisKind = "value" | "log" | "category";

/** One axis of parallel coordinates. */
export interface StudyAxis {
  id: string;
  kind: AxisKind;
  /** True for axes of metrics; that of the chosen one comes last. */
  isMetric: boolean;
  /** The words of a category, in order. */
  words: readonly string[];
  /** Of a reverse logarithmic axis: the sum of its bounds. A chart draws the sum less the value on an inverse log axis. */
  mirror?: number;
}

type Value = number | string | null;

/** Return what a chart draws for a value, or the value of what it draws. */
export function mirrorOn(axis: StudyAxis, value: number): number {
  return axis.mirror === undefined ? value : axis.mirror - value;
}

/** Return a range of values as one of what a chart draws, or back. */
export function mirrorRange(axis: StudyAxis, [low, high]: readonly [number, number]): [number, number] {
  return axis.mirror === undefined ? [low, high] : [axis.mirror - high, axis.mirror - low];
}

/** Return what a chart draws for a trial on an axis; null for no value. */
export function drawnOn(axis: StudyAxis, trial: TrialSummary): Value {
  const value = valueOn(axis, trial);
  return typeof value === "number" ? mirrorOn(axis, value) : value;
}

/** Return a trial's value on an axis; null if the parameter is not active or the metric has none. */
export function valueOn(axis: StudyAxis, trial: TrialSummary): Value {
  if (axis.isMetric) return finalValue(trial, axis.id);
  const value = trial.parameters[axis.id];
  if (value === undefined) return null;
  if (axis.kind === "category") return String(value);
  const isDrawable = typeof value === "number" && Number.isFinite(value) && (axis.kind !== "log" || mirrorOn(axis, value) > 0);
  return isDrawable ? value : null;
}

/** Return an axis for each parameter of the study and its trials, then the other metrics', then the metric's. */
export function axesOf(study: StudyDescription, rated: readonly Rated[], metric: StudyMetric, logMetric: boolean): StudyAxis[] {
  const names = new Set(study.parameters.map((parameter) => parameter.id));
  for (const { trial } of rated) for (const name of Object.keys(trial.parameters)) names.add(name);
  const axes = [...names].map((name) => parameterAxis(study, rated, name));
  const isLog = logMetric && rated.every(({ value }) => value > 0);
  const others = study.metrics.filter(({ id }) => id !== metric.id).map(({ id }): StudyAxis => ({ id, kind: "value", isMetric: true, words: [] }));
  return [...axes, ...others, { id: metric.id, kind: isLog ? "log" : "value", isMetric: true, words: [] }];
}

function parameterAxis(study: StudyDescription, rated: readonly Rated[], name: string): StudyAxis {
  const specs = study.parameters.filter((parameter) => parameter.id === name);
  const values = rated.map(({ trial }) => trial.parameters[name]).filter((value) => value !== undefined);
  const isCategory = specs.some((spec) => spec.kind === "CATEGORICAL") || values.some((value) => typeof value === "string");
  if (isCategory) {
    const words = [...specs.flatMap((spec) => spec.values ?? []), ...values].map(String);
    return { id: name, kind: "category", isMetric: false, words: [...new Set(words)] };
  }
  const mirror = mirrorOf(specs);
  const isLog = mirror !== undefined || specs.some((spec) => spec.scale === "LOG");
  const isPositive = values.every((value) => (mirror === undefined ? Number(value) : mirror - Number(value)) > 0);
  if (!isLog || !isPositive) return { id: name, kind: "value", isMetric: false, words: [] };
  return { id: name, kind: "log", isMetric: false, words: [], ...(mirror === undefined ? {} : { mirror }) };
}

/** Return the sum of the bounds of a reverse logarithmic scale; undefined for any other. */
function mirrorOf(specs: StudyDescription["parameters"]): number | undefined {
  const spec = specs.find(({ scale }) => scale === "REVERSE_LOG");
  const bounds = (spec?.bounds ?? spec?.values ?? []).map(Number);
  return bounds.length > 0 ? Math.min(...bounds) + Math.max(...bounds) : undefined;
}

/** Ranges by axis id: the lowest and the highest value; of a category the positions of its words. */
export type Ranges = Readonly<Record<string, readonly [number, number]>>;

/** The ends of a range that has none. */
export const LOWEST = -Number.MAX_VALUE;
export const HIGHEST = Number.MAX_VALUE;

/** Return whether a trial is inside all ranges; a trial without a value on a ranged axis is not. */
export function isInRanges(trial: TrialSummary, axes: readonly StudyAxis[], ranges: Ranges): boolean {
  return axes.every((axis) => {
    const range = Object.hasOwn(ranges, axis.id) ? ranges[axis.id] : undefined;
    if (!range) return true;
    const value = valueOn(axis, trial);
    if (value === null) return false;
    const position = typeof value === "string" ? axis.words.indexOf(value) : value;
    return position >= range[0] && position <= range[1];
  });
}

/** Return ranges as the words of an address: `lr:0.001..0.1`, `lr:..0.1` without a lowest value. */
export function writeRanges(ranges: Ranges): string[] {
  return Object.entries(ranges).map(([id, [low, high]]) => `${id}:${low === LOWEST ? "" : low}..${high === HIGHEST ? "" : high}`);
}

/** Return the ranges of an address; words that are none are left out. */
export function readRanges(words: readonly string[]): Ranges {
  const ranges: Record<string, readonly [number, number]> = {};
  for (const word of words) {
    const match = /^(.+):(-?[\d.eE+-]*?)\.\.(-?[\d.eE+-]*)$/.exec(word);
    const [low, high] = [Number(match?.[2] || LOWEST), Number(match?.[3] || HIGHEST)];
    const isOpen = low === LOWEST && high === HIGHEST;
    if (match?.[1] && !isOpen && Number.isFinite(low) && Number.isFinite(high) && low <= high) ranges[match[1]] = [low, high];
  }
  return ranges;
}

function formatValue(value: number | string): string {
  if (typeof value === "string") return value;
  const text = String(value);
  // a program's parser of options takes -1e-7 for the name of an option
  if (value >= 0 || !text.includes("e-")) return text;
  const [digits = "", exponent = "0"] = text.split("e-");
  return value.toFixed(Math.min(100, Number(exponent) + (digits.split(".")[1]?.length ?? 0)));
}

/** Return the arguments that a trial's program got, for a shell. */
export function listArguments(trial: TrialSummary): string {
  return Object.entries(trial.parameters).map(([name, value]) => `${quote(`--${name}`)} ${quote(formatValue(value))}`).join(" ");
}

const RULES: Readonly<Record<string, string>> = { median: "median rule", decay_curve: "decay curve rule", convex: "convex rule", asha: "rule of successive halving" };

/** Return the rule of an early stop in words. */
export function describeRule(rule: string): string {
  return RULES[rule] ?? rule;
}

/** Return why a trial ended without a result or early, and which limits it breaks; "" for any other. */
export function describeWhy(trial: TrialSummary): string {
  const limits = (trial.brokenLimits ?? []).map(({ reason }) => showHidden(reason)).join(", ");
  return [describeEnd(trial), limits].filter(Boolean).join("; ");
}

function describeEnd(trial: TrialSummary): string {
  if (trial.earlyStop) {
    const { rule, value, bar, rung } = trial.earlyStop;
    return `${trial.state === "PAUSED" ? "paused" : "stopped early"}${rung ? ` at rung ${rung}` : ""} by the ${describeRule(rule)}: ${formatNumber(value)} against ${formatNumber(bar)}`;
  }
  const early = trial.stoppedEarly ? "stopped early" : "";
  return [early, showHidden(trial.infeasibleReason ?? "")].filter(Boolean).join(". ");
}
