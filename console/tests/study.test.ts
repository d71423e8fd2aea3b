import assert from "node:assert/strict";
import { test } from "node:test";

import { writeCsv } from "../src/core/csv";
import { rankShares, scaleColour } from "../src/core/scale_colours";
import {
  axesOf, bestShare, bestSoFar, describeOrigin, describeWhy, drawnOn, finalValue, isInRanges, listArguments, mirrorRange, rate, readRanges, valueOn, writeRanges,
} from "../src/core/study";
import type { StudyDescription, StudyMetric, TrialSummary } from "../src/net/types";

const ACCURACY: StudyMetric = { id: "accuracy", goal: "MAXIMIZE" };
const LOSS: StudyMetric = { id: "accuracy", goal: "MINIMIZE" };
const BROKEN = { metric: "size", value: 3, threshold: 2, reason: "size 3 > 2" };
const SIZE: StudyMetric = { id: "size", goal: "MINIMIZE", threshold: 2 };

function trial(number: number, accuracy: number | null, more: Partial<TrialSummary> = {}): TrialSummary {
  const metrics: Record<string, number> = accuracy === null ? {} : { accuracy };
  return { number, state: "SUCCEEDED", jobState: "SUCCEEDED", stoppedEarly: false, metrics, parameters: {}, job: "7", ...more };
}

function study(parameters: StudyDescription["parameters"]): StudyDescription {
  return {
    name: "s", displayName: "s", state: "RUNNING", message: "", algorithm: "DEFAULT", metrics: [ACCURACY], parameters, trialCountMax: 9, trialCountParallel: 1,
    counts: { made: 0, running: 0, waiting: 0, paused: 0, succeeded: 0, infeasible: 0, stoppedEarly: 0 }, leaders: [], knownResults: 0, firstPoints: 0,
  };
}

test("only succeeded trials with a finite value have one", () => {
  assert.equal(finalValue(trial(1, 0.5), "accuracy"), 0.5);
  assert.equal(finalValue(trial(1, 0.5, { state: "INFEASIBLE" }), "accuracy"), null);
  assert.equal(finalValue(trial(1, 0.5, { state: "ACTIVE" }), "accuracy"), null);
  assert.equal(finalValue(trial(1, NaN), "accuracy"), null);
  assert.equal(finalValue(trial(1, null), "accuracy"), null);
  assert.deepEqual(rate([], "accuracy"), []);
});

test("the best line follows the goal, and leaves out trials beyond a limit", () => {
  const rated = rate([trial(1, 3), trial(2, 1), trial(3, 2), trial(4, 5)], "accuracy");
  assert.deepEqual(bestSoFar(rated, ACCURACY), [3, 3, 3, 5]);
  assert.deepEqual(bestSoFar(rated, LOSS), [3, 1, 1, 1]);
  const limited = rate([trial(1, 9, { brokenLimits: [BROKEN] }), trial(2, 1), trial(3, 8, { brokenLimits: [BROKEN] })], "accuracy");
  assert.deepEqual(bestSoFar(limited, ACCURACY), [null, 1, 1]);
});

test("the best share has at least one trial, the best first", () => {
  const rated = rate([trial(1, 3), trial(2, 1), trial(3, 2)], "accuracy");
  assert.deepEqual(bestShare(rated, ACCURACY, 50).map((one) => one.trial.number), [1, 3]);
  assert.deepEqual(bestShare(rated, LOSS, 1).map((one) => one.trial.number), [2]);
  assert.deepEqual(bestShare([], ACCURACY, 10), []);
});

test("an axis is logarithmic if the study's scale is and all values permit it", () => {
  const spec = study([{ id: "lr", kind: "DOUBLE", scale: "LOG", bounds: [0.001, 1] }, { id: "opt", kind: "CATEGORICAL", scale: "NONE", values: ["sgd", "adam"] }]);
  const rated = rate([trial(1, 1, { parameters: { lr: 0.1, opt: "adam", other: "x" } })], "accuracy");
  const axes = axesOf(spec, rated, ACCURACY, true);
  assert.deepEqual(axes.map(({ id, kind }) => [id, kind]), [["lr", "log"], ["opt", "category"], ["other", "category"], ["accuracy", "log"]]);
  const negative = rate([trial(1, -1, { parameters: { lr: -0.1 } })], "accuracy");
  assert.deepEqual(axesOf(spec, negative, ACCURACY, true).map(({ kind }) => kind), ["value", "category", "value"]);
});

test("a reverse logarithmic scale is drawn as a mirrored logarithm", () => {
  const ranged = study([{ id: "decay", kind: "DOUBLE", scale: "REVERSE_LOG", bounds: [0.001, 0.999] }]);
  const rated = rate([trial(1, 1, { parameters: { decay: 0.99 } }), trial(2, 1)], "accuracy");
  const [axis = assert.fail()] = axesOf(ranged, rated, ACCURACY, false);
  assert.deepEqual([axis.kind, axis.mirror], ["log", 1]);
  const [one = assert.fail(), without = assert.fail()] = rated.map((rate) => rate.trial);
  assert.deepEqual([valueOn(axis, one), drawnOn(axis, one)], [0.99, 1 - 0.99]);
  assert.equal(drawnOn(axis, without), null);
  assert.deepEqual(mirrorRange(axis, mirrorRange(axis, [0.25, 0.5])), [0.25, 0.5]);
  assert.ok(isInRanges(one, [axis], { decay: mirrorRange(axis, [0, 0.5]) }));
  const listed = study([{ id: "decay", kind: "DISCRETE", scale: "REVERSE_LOG", values: [0.5, 0.9, 1.5] }]);
  assert.equal(axesOf(listed, rated, ACCURACY, false)[0]?.mirror, 2);
  const beyond = rate([trial(1, 1, { parameters: { decay: 1 } })], "accuracy");
  assert.equal(axesOf(ranged, beyond, ACCURACY, false)[0]?.kind, "value");
  assert.deepEqual(axesOf(ranged, [], ACCURACY, false).map(({ kind }) => kind), ["log", "value"]);
});

test("values that are no number have no point on a logarithmic axis", () => {
  const spec = study([{ id: "lr", kind: "DOUBLE", scale: "LOG", bounds: [0.001, 1] }]);
  const rated = rate([trial(1, 1, { parameters: { lr: 0.1 } })], "accuracy");
  const [axis = assert.fail()] = axesOf(spec, rated, ACCURACY, false);
  for (const lr of [NaN, Infinity, 0, -1]) assert.equal(drawnOn(axis, trial(2, 1, { parameters: { lr } })), null);
});

test("other metrics have axes before the chosen one", () => {
  const spec = { ...study([]), metrics: [ACCURACY, SIZE] };
  const rated = rate([trial(1, 1, { metrics: { accuracy: 1, size: 3 } })], "accuracy");
  const axes = axesOf(spec, rated, ACCURACY, false);
  assert.deepEqual(axes.map(({ id }) => id), ["size", "accuracy"]);
  assert.deepEqual(axes.map((axis) => valueOn(axis, rated[0]?.trial ?? assert.fail())), [3, 1]);
});

test("ranges hold values, positions of words, and no trial without a value", () => {
  const spec = study([{ id: "lr", kind: "DOUBLE", scale: "NONE" }, { id: "opt", kind: "CATEGORICAL", scale: "NONE", values: ["sgd", "adam"] }]);
  const one = trial(1, 0.5, { parameters: { lr: 0.1, opt: "adam" } });
  const axes = axesOf(spec, rate([one], "accuracy"), ACCURACY, false);
  assert.ok(isInRanges(one, axes, {}));
  assert.ok(isInRanges(one, [{ id: "constructor", kind: "value", isMetric: false, words: [] }], {}));
  assert.ok(isInRanges(one, axes, { lr: [0.1, 0.2], opt: [0.5, 1.5], accuracy: [0, 1] }));
  assert.ok(!isInRanges(one, axes, { opt: [-0.5, 0.5] }));
  assert.ok(!isInRanges(trial(2, 0.5, { parameters: { opt: "adam" } }), axes, { lr: [-9, 9] }));
  assert.equal(valueOn(axes[0] ?? assert.fail(), trial(2, 0.5)), null);
});

test("ranges survive the address, and nonsense there is left out", () => {
  const ranges = { lr: [0.001, 0.1], "a:b": [-1, 2], batch: [1048576, Number.MAX_VALUE], loss: [-Number.MAX_VALUE, 0.12345678] } as const;
  assert.deepEqual(readRanges(writeRanges(ranges)), ranges);
  assert.deepEqual(readRanges(["lr", "lr:2..1", "lr:x..1", ":1..2", "lr:1", "lr:.."]), {});
});

test("arguments are those of the program, for a shell", () => {
  const one = trial(1, 1, { parameters: { lr: 1e-7, shift: -1.5e-7, units: 32, name: "it's" } });
  assert.equal(listArguments(one), `--lr 1e-7 --shift -0.00000015 --units 32 --name 'it'"'"'s'`);
});

test("the reason of an end names the rule, the value and the bar", () => {
  const earlyStop = { rule: "median", metric: "accuracy", value: 0.25, bar: 0.5, at: 3, byTime: false, reason: "r" };
  assert.equal(describeWhy(trial(1, 1, { stoppedEarly: true, earlyStop })), "stopped early by the median rule: 0.25 against 0.5");
  const atRung = { ...earlyStop, rule: "asha", rung: 2 };
  assert.equal(describeWhy(trial(1, 1, { stoppedEarly: true, earlyStop: atRung })), "stopped early at rung 2 by the rule of successive halving: 0.25 against 0.5");
  assert.equal(describeWhy(trial(1, 1, { stoppedEarly: true })), "stopped early");
  assert.equal(describeWhy(trial(1, null, { infeasibleReason: "exit code 1" })), "exit code 1");
  assert.equal(describeWhy(trial(1, 1)), "");
  assert.equal(describeWhy(trial(1, 1, { brokenLimits: [BROKEN] })), "size 3 > 2");
  assert.equal(describeWhy(trial(1, 1, { stoppedEarly: true, brokenLimits: [BROKEN] })), "stopped early; size 3 > 2");
});

test("a trial says where its values are from", () => {
  const enqueued = { origin: "FIRST_POINT" } as const;
  assert.equal(describeOrigin(trial(1, 1)), "");
  assert.equal(describeOrigin(trial(1, 1, { origin: "DEFAULTS" })), "defaults");
  assert.equal(describeOrigin(trial(1, 1, enqueued)), "enqueued");
  assert.equal(describeOrigin(trial(1, 1, { ...enqueued, firstPoint: { position: 2 } })), "enqueued (point 2)");
  assert.equal(describeOrigin(trial(1, 1, { ...enqueued, firstPoint: { position: 2, source: "line 3 of p.csv" } })), "enqueued (line 3 of p.csv)");
});

test("a cell of CSV is never a formula, and a negative number stays one", () => {
  assert.equal(writeCsv([["a", "=1+1", "-0.5", "-x", 'say "hi"', "a,b"]]), `a,'=1+1,-0.5,'-x,"say ""hi""","a,b"\r\n`);
});

test("colours rank from worst to best", () => {
  assert.deepEqual(rankShares([3, 1, 2], (left, right) => left > right), [1, 0, 0.5]);
  assert.deepEqual(rankShares([7], (left, right) => left > right), [1]);
  for (const isDark of [true, false]) for (const share of [0, 0.5, 1]) assert.match(scaleColour(share, isDark), /^rgb\(\d+,\d+,\d+\)$/);
});
