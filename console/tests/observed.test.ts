import assert from "node:assert/strict";
import { test } from "node:test";

import {
  amountsOf, comparePace, describePrices, formatCost, formatEnergy, formatGoodput, formatHours, formatShare, formatShortCost, formatSteps, formatStepTime, formatUnit, readCost,
  remainingSeconds, sharesOf, sumOf, usesOf, type JobCost,
} from "../src/core/observed";
import { daysOf, formatIdleCost, gpuType, listHolders, readUsageQuery, sortUsage, usageCsv } from "../src/core/usage";
import type { MachineUse, ProgressRow } from "../src/net/types";

const COST: JobCost = { amount: 41.234, currency: "USD", at_least: false, lacking: [], parts: { productive: 41.234 }, source: "catalog", date: "2026-11-01" };
const PROGRESS: ProgressRow = { project: "p", job: "j", attempt: 1, step: 1200, total: 5000, step_s: 3, predicted_step_s: null, gpu_use: null, cost: null };

test("a job without steps has a bound, never a number", () => {
  assert.equal(formatGoodput({ goodput: 0.9329, at_most: null }), "93.3 %");
  assert.equal(formatGoodput({ goodput: null, at_most: 0.97 }), "at most 97 %");
  assert.equal(formatGoodput({ goodput: null, at_most: null }), "–");
  assert.equal(formatShare(null), "–");
});

test("a type without a price makes the sum a lower limit, and is never 0", () => {
  assert.equal(formatCost(COST), "41.23 USD");
  assert.equal(formatCost({ ...COST, amount: 0.1234 }), "0.12 USD");
  assert.equal(formatCost({ ...COST, amount: 0.00471 }), "0.0047 USD");
  assert.equal(formatCost({ ...COST, amount: 0.00001 }), "< 0.0001 USD");
  assert.equal(formatCost({ ...COST, amount: 0 }), "0 USD");
  assert.equal(formatCost({ ...COST, amount: 1234.5, at_least: true }), "at least 1,235 USD");
  assert.equal(formatShortCost({ ...COST, at_least: true }), "≥ 41.23 USD");
  assert.equal(formatCost({ ...COST, amount: null, currency: null }), "no price");
  assert.equal(formatCost(null), "–");
  assert.equal(describePrices({ ...COST, lacking: ["X has no price"] }), "prices: catalog (2026-11-01); X has no price");
});

test("a cost without types is read, another document is none", () => {
  assert.deepEqual(readCost({ ...COST }), COST);
  assert.equal(readCost({ amount: 3 }), null);
  assert.equal(readCost(null), null);
});

test("steps, rates and energies have units", () => {
  assert.equal(formatSteps(PROGRESS), "1,200 of 5,000 (24 %)");
  assert.equal(formatSteps({ step: 7, total: null }), "7");
  assert.equal(formatSteps({ step: 7000, total: 5000 }), "7,000 of 5,000 (100 %)");
  assert.equal(formatSteps({ step: null, total: 5 }), "");
  assert.equal(remainingSeconds(PROGRESS), 11400);
  assert.equal(remainingSeconds({ ...PROGRESS, step: 6000 }), 0);
  assert.equal(remainingSeconds({ ...PROGRESS, step_s: null }), null);
  assert.deepEqual([0.01234, 3.021, 125].map(formatStepTime), ["12.3 ms", "3.02 s", "2 min 05 s"]);
  assert.deepEqual([comparePace(3.02, 2.8), comparePace(2, 4), comparePace(2, 2), comparePace(2, 0)], ["8 % slower", "50 % faster", "as predicted", "as predicted"]);
  assert.deepEqual([350, 7200, 1.2e7, null].map(formatEnergy), ["350 J", "2 Wh", "3.333 kWh", "–"]);
  assert.deepEqual([0, 1, 90, 5400, 3.6e6].map(formatHours), ["0", "< 0.001", "0.025", "1.5", "1,000"]);
  assert.deepEqual([formatUnit(2e9, "bytes"), formatUnit(2e6, "bytes/s"), formatUnit(0.5, "ratio"), formatUnit(3.25, "cores"), formatUnit(61, "C"), formatUnit(7, "")], ["2 GB", "2 MB/s", "50 %", "3.25 cores", "61 °C", "7"]);
});

test("shares are of the parts that are shown", () => {
  const shares = sharesOf({ held: 100, wall: 200, productive: 75, lost: 25, stalled: 0 });
  assert.deepEqual(shares.map(({ id, share }) => [id, share]), [["productive", 0.75], ["lost", 0.25]]);
  assert.deepEqual(sharesOf({}), []);
  assert.equal(sumOf({ a: 1, b: 2 }), 3);
});

const row = (key: string, gpus: number, amount: number | null): MachineUse => ({
  key, user: "ada", jobs: 2, gpu_seconds: { productive: gpus, idle: 5 }, vcpu_seconds: { productive: 7 }, energy_j: null, cost: { ...COST, amount }, other_costs: [],
});

test("the address of the page Usage", () => {
  assert.deepEqual(readUsageQuery(new URLSearchParams("")), { by: "project", period: "7d", from: "", to: "" });
  assert.deepEqual(readUsageQuery(new URLSearchParams("by=day&from=2026-11-01&to=x")), { by: "day", period: "", from: "2026-11-01", to: "" });
  assert.deepEqual(readUsageQuery(new URLSearchParams("by=x&period=30d")).period, "30d");
  assert.deepEqual(daysOf({ by: "day", period: "yesterday", from: "", to: "" }), { since: "yesterday", until: "yesterday" });
  assert.deepEqual(daysOf({ by: "day", period: "", from: "2026-11-01", to: "" }), { since: "2026-11-01", until: null });
});

test("rows are sorted by a column, and written as CSV with seconds", () => {
  const rows = [row("b", 10, 1), row("a", 10, null), row("c", 30, 2)];
  assert.deepEqual(sortUsage(rows, "gpus", true).map(({ key }) => key), ["c", "a", "b"]);
  assert.deepEqual(sortUsage(rows, "cost", true).map(({ key }) => key), ["c", "b", "a"]);
  assert.deepEqual(sortUsage(rows, "key", false).map(({ key }) => key), ["a", "b", "c"]);
  const lines = usageCsv("user", [row("ada", 10, null)]).trim().split("\r\n");
  assert.equal(lines[0]?.startsWith("user,jobs,gpu_seconds_productive,"), true);
  assert.equal(usageCsv("job", [row("p/j", 10, null)]).split("\r\n")[1]?.startsWith("p/j,ada,10,"), true);
  assert.equal(lines[1], "ada,2,10,0,0,0,0,0,5,0,7,,,USD,false,,");
});

test("a GPU has a type and the users that held it", () => {
  const gpu: MachineUse = {
    ...row("n1/0", 10, 1), node: "n1", gpu: { index: 0, uuid: "GPU-1", type: "NVIDIA_H100_80GB" }, more_holders: 2,
    holders: [{ project: "p", user: "ada", seconds: 7200, idle_s: 3600 }, { project: "q", user: "", seconds: 3600, idle_s: 0 }],
  };
  assert.equal(gpuType(gpu), "H100 80GB");
  assert.deepEqual(listHolders(gpu), ["p/ada 2 h", "q/anonymous 1 h", "and 2 more"]);
  assert.deepEqual(listHolders(gpu, true), ["p/ada 2 h, idle 1 h", "q/anonymous 1 h", "and 2 more"]);
  assert.deepEqual([gpuType(row("n1", 10, 1)), listHolders(row("n1", 10, 1))], ["", []]);
  const [head, line] = usageCsv("gpu", [gpu]).split("\r\n");
  assert.equal(head?.startsWith("gpu,jobs,gpu_uuid,gpu_type,users,gpu_seconds_productive,"), true);
  assert.equal(line?.startsWith('n1/0,2,GPU-1,NVIDIA_H100_80GB,"p/ada 2 h, idle 1 h; q/anonymous 1 h; and 2 more",10,'), true);
});

test("idle GPUs are a part of the cost of productive time, or of time without known steps", () => {
  const parts = { starting: 1, productive: 3, idle: 2 };
  assert.deepEqual(amountsOf({ goodput: 0.9 }, parts), { starting: 1, productive: 5 });
  assert.deepEqual(amountsOf({ goodput: null }, { starting: 1, unknown: 3, idle: 2 }), { starting: 1, productive: 0, unknown: 5 });
  assert.deepEqual(usesOf({ goodput: null }, { productive: 7 }), { productive: 0, unknown: 7 });
  assert.equal(formatIdleCost({ ...row("a", 1, 9), cost: { ...COST, parts } }), "2.00 USD");
  assert.equal(formatIdleCost(row("a", 1, 9)), "");
});
