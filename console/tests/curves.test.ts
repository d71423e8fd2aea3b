import assert from "node:assert/strict";
import { test } from "node:test";

import {
  findGaps, formatElapsed, formatTimeMarks, indexAt, joinLines, linesOf, readSteps, readTimes, smooth, splitAtStepsBack, summarize, type CurvePoint,
} from "../src/core/curves";
import { scalarCharts, usageCharts } from "../src/core/scalars";
import type { JobUsage, ScalarCurve } from "../src/net/types";

const point = (step: number | null, value: number, at = step ?? 0): CurvePoint => ({ step, at, low: value, value, high: value });

test("points with anything but finite numbers are left out", () => {
  assert.deepEqual(readSteps([[1, 10, 1, 2, 3], [2, 11, NaN, 2, 3], [3, 12, 1, null, 3], [null, 13, 1, 1, 1]]).map(({ step, at }) => [step, at]), [[1, 10], [null, 13]]);
  assert.deepEqual(readTimes([[10, 1, 2, 3], [11, 1, Infinity, 3], []]).map(({ at, low, value, high }) => [at, low, value, high]), [[10, 1, 2, 3]]);
});

test("a trainer that goes back to an earlier step draws another line", () => {
  const parts = splitAtStepsBack([point(1, 1), point(2, 2), point(1, 3), point(3, 4)]);
  assert.deepEqual(parts.map((part) => part.map(({ step }) => step)), [[1, 2], [1, 3]]);
  assert.deepEqual(splitAtStepsBack([]), []);
});

test("a gap is a distance much longer than one beside it, and than two minutes", () => {
  assert.deepEqual(findGaps([0, 60, 120, 1920, 1980]), [false, false, false, true, false]);
  assert.deepEqual(findGaps([0, 10, 20, 80, 140]), [false, false, false, false, false]);
  assert.deepEqual(findGaps([0, 60, 1860, 3660, 3720]), [false, false, true, true, false]);
  assert.deepEqual(findGaps([0, 9000]), [false, false]);
});

test("nothing is drawn inside a gap", () => {
  const [line] = linesOf([0, 60, 120, 1920, 1980].map((at) => point(null, 1, at)), { name: "", tone: 0, axis: "time", start: 0 });
  assert.deepEqual(line?.xs, [0, 60, 120, 1020, 1920, 1980]);
  assert.deepEqual(line?.values, [1, 1, 1, null, 1, 1]);
});

test("smoothing does not draw the first values to 0, and 0 changes nothing", () => {
  assert.deepEqual(smooth([2, 2, 2], 0.9).map((value) => Number(value.toFixed(9))), [2, 2, 2]);
  assert.deepEqual(smooth([1, 5], 0), [1, 5]);
  const [line] = linesOf([point(1, 0), point(2, 4)], { name: "", tone: 0, axis: "step", start: 0, weight: 0.5 });
  assert.deepEqual(line?.raw, [0, 4]);
  assert.deepEqual(line?.values.map((value) => Number(value?.toFixed(4))), [0, 2.6667]);
});

test("lines share one axis; where one has no point it is not broken", () => {
  const options = { tone: 0, axis: "step", start: 0 } as const;
  const lines = [...linesOf([point(1, 1), point(3, 3)], { ...options, name: "a" }), ...linesOf([point(2, -2)], { ...options, name: "b" })];
  const joined = joinLines(lines);
  assert.deepEqual(joined.xs, [1, 2, 3]);
  assert.deepEqual(joined.columns.map(({ values }) => values), [[1, undefined, 3], [undefined, -2, undefined]]);
  assert.deepEqual(joinLines(lines, true).columns[1]?.values, [undefined, null, undefined]);
});

test("the pointer is on the last point at or before it", () => {
  assert.deepEqual([0, 1, 5, 9, null].map((x) => indexAt([1, 5, 7], x)), [-1, 0, 1, 2, 2]);
  assert.equal(indexAt([], null), -1);
});

test("axes of times are short", () => {
  assert.deepEqual([0, 30, 90, 3600, 5400, 86400 * 2].map(formatElapsed), ["0 s", "30 s", "1.5 min", "1:00 h", "1:30 h", "2 d"]);
  const noon = new Date(2026, 10, 30, 23, 59).getTime() / 1000;
  assert.deepEqual(formatTimeMarks([noon, noon + 60, noon + 120], 60), ["23:59\n11-30", "00:00\n12-01", "00:01"]);
  assert.deepEqual(formatTimeMarks([noon], 86400), ["11-30"]);
});

test("the sum of a chart is the mean and the highest value", () => {
  const lines = linesOf([{ ...point(1, 1), high: 9 }, point(2, 3)], { name: "", tone: 0, axis: "step", start: 0 });
  assert.deepEqual(summarize(lines), { mean: 2, highest: 9 });
  assert.equal(summarize([]), null);
});

const curve = (name: string, more: Partial<ScalarCurve> = {}): ScalarCurve =>
  ({ name, source: "event files", run: "train", attempt: 1, points: [[1, 100, 1, 1, 1], [2, 110, 2, 2, 2]], ...more });

test("each name has a chart with a line for each run, and a mark for each further attempt", () => {
  const series = [curve("loss"), curve("loss", { attempt: 2, points: [[2, 200, 3, 3, 3]] }), curve("loss", { run: "eval" }), curve("acc")];
  const charts = scalarCharts([{ name: "job", series }], { axis: "step", weight: 0, text: "" });
  assert.deepEqual(charts.map(({ title }) => title), ["acc", "loss"]);
  assert.deepEqual(charts[1]?.lines.map(({ name, tone }) => [name, tone]), [["train", 0], ["train", 0], ["eval", 1]]);
  assert.deepEqual(charts[1]?.marks, [{ x: 2, text: "attempt 2" }]);
  assert.deepEqual(scalarCharts([{ name: "job", series }], { axis: "since", weight: 0, text: "LOSS" }).map(({ marks }) => marks), [[{ x: 100, text: "attempt 2" }]]);
});

test("one name of two sources has two charts, and lines of several jobs their names", () => {
  const series = [curve("loss"), curve("loss", { source: "progress", run: "workerpool0-0" })];
  assert.deepEqual(scalarCharts([{ name: "job", series }], { axis: "step", weight: 0, text: "" }).map(({ title }) => title), ["loss (event files)", "loss (progress)"]);
  const jobs = [{ name: "a", series: [curve("loss")] }, { name: "b", series: [curve("loss", { attempt: 2 })] }];
  const [chart] = scalarCharts(jobs, { axis: "since", weight: 0, text: "" });
  assert.deepEqual(chart?.lines.map(({ name, xs }) => [name, xs]), [["a", [0, 10]], ["b", [0, 10]]]);
  assert.deepEqual(chart?.marks, []);
});

test("values without a step have no line by step", () => {
  const series = [curve("loss", { points: [[null, 5, 1, 1, 1]] })];
  assert.deepEqual(scalarCharts([{ name: "job", series }], { axis: "step", weight: 0, text: "" }), []);
  assert.equal(scalarCharts([{ name: "job", series }], { axis: "time", weight: 0, text: "" }).length, 1);
});

test("use has a chart for each kind, that of GPUs first, and marks restarts", () => {
  const points: JobUsage["series"][number]["points"] = [[100, 0.5, 0.6, 0.7]];
  const usage: JobUsage = {
    attempts: [{ attempt: 1, start: 90, end: 150 }, { attempt: 2, start: 200, end: null }], missing: [],
    series: [
      { name: "memory", unit: "bytes", attempt: 1, task: "w-0", gpu: null, points }, { name: "gpu_memory", unit: "bytes", attempt: 1, task: null, gpu: "GPU-0123456789abc", points },
      { name: "gpu_use", unit: "ratio", attempt: 1, task: null, gpu: "GPU-0123456789abc", points }, { name: "cpu", unit: "cores", attempt: 1, task: "w-0", gpu: null, points: [] },
    ],
  };
  const charts = usageCharts(usage);
  assert.deepEqual(charts.map(({ title }) => title), ["GPU use", "GPU memory", "Memory"]);
  assert.deepEqual(charts[0]?.marks, [{ x: 200, text: "attempt 2" }]);
  assert.equal(charts[0]?.sentence, "mean 60 %, highest 70 %");
  assert.equal(charts[0]?.lines[0]?.name, "01234567…");
});
