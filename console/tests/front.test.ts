import assert from "node:assert/strict";
import { test } from "node:test";

import { frontPoints, nearestPoint, objectivesOf, scaleOf, staircase } from "../src/core/front";
import type { StudyMetric, TrialSummary } from "../src/net/types";

const ACCURACY: StudyMetric = { id: "accuracy", goal: "MAXIMIZE" };
const SECONDS: StudyMetric = { id: "seconds", goal: "MINIMIZE" };
const SIZE: StudyMetric = { id: "size", goal: "MINIMIZE", threshold: 2 };
const BROKEN = { metric: "size", value: 3, threshold: 2, reason: "size 3 > 2" };

function trial(number: number, accuracy: number, seconds: number, more: Partial<TrialSummary> = {}): TrialSummary {
  return { number, state: "SUCCEEDED", jobState: "SUCCEEDED", stoppedEarly: false, metrics: { accuracy, seconds }, parameters: {}, job: "7", ...more };
}

const TRIALS = [
  trial(1, 0.9, 30), trial(2, 0.8, 10), trial(3, 0.7, 20), trial(4, 0.95, 5, { brokenLimits: [BROKEN] }),
  trial(5, 0.9, 1, { state: "INFEASIBLE" }), trial(6, 0.9, 1, { metrics: { accuracy: 0.9 } }),
];

test("a metric with a limit is no objective", () => {
  assert.deepEqual(objectivesOf([ACCURACY, SIZE, SECONDS]).map(({ id }) => id), ["accuracy", "seconds"]);
});

test("points of the front come last, and only trials with both values have one", () => {
  const points = frontPoints(TRIALS, new Set([1, 2]), ACCURACY, SECONDS);
  assert.deepEqual(points.map((point) => [point.trial.number, point.kind]), [[3, "beaten"], [4, "beyond"], [1, "front"], [2, "front"]]);
});

test("the line goes around what the front beats, whatever the goals are", () => {
  const lines = (across: StudyMetric, up: StudyMetric) => staircase(frontPoints(TRIALS, new Set([1, 2]), across, up), across, up);
  assert.deepEqual(lines(ACCURACY, SECONDS), [[0.8, 10], [0.8, 30], [0.9, 30]]);
  assert.deepEqual(lines(SECONDS, ACCURACY), [[10, 0.8], [30, 0.8], [30, 0.9]]);
  const both = frontPoints([trial(1, 1, 5), trial(2, 2, 3)], new Set([1, 2]), ACCURACY, { ...SECONDS, goal: "MAXIMIZE" });
  assert.deepEqual(staircase(both, ACCURACY, { ...SECONDS, goal: "MAXIMIZE" }), [[1, 5], [1, 3], [2, 3]]);
  assert.deepEqual(staircase([], ACCURACY, SECONDS), []);
});

test("a scale has room around its values, and round marks", () => {
  const scale = scaleOf([0, 10], 0, 100, false, 5);
  assert.ok(scale.at(0) > 0 && scale.at(10) < 100);
  assert.equal(scale.at(5), 50);
  assert.deepEqual(scale.ticks, [0, 5, 10]);
  assert.deepEqual(scaleOf([0.001, 10], 0, 100, true, 5).ticks, [0.001, 0.01, 0.1, 1, 10]);
  const single = scaleOf([3, 3], 0, 100, false, 5);
  assert.equal(single.at(3), 50);
  assert.ok(single.ticks.includes(3));
  assert.ok(scaleOf([0, 0], 0, 100, false, 5).ticks.length > 0);
});

test("the nearest point is within reach; of equal ones that drawn last", () => {
  const points = frontPoints([trial(1, 0.5, 5), trial(2, 0.5, 5)], new Set([1]), ACCURACY, SECONDS);
  const [x, y] = [scaleOf([0, 1], 0, 100, false, 5), scaleOf([0, 10], 0, 100, false, 5)];
  assert.equal(nearestPoint(points, x, y, [52, 51], 18)?.trial.number, 1);
  assert.equal(nearestPoint(points, x, y, [90, 50], 18), null);
});
