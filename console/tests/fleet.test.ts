import assert from "node:assert/strict";
import { test } from "node:test";

import { countHeldAsFree, countHeldIdle, describeFleet, describeGpuCounts, describeNotice, describeReading, describeUnread, describeUse, filterNodes, gpuNote, isInstance, jobTitle, parseNotice, sparkPath } from "../src/core/fleet";
import type { GpuState, GpuSummary, NodeSummary } from "../src/net/types";

function gpu(state: GpuState, more: Partial<GpuSummary> = {}): GpuSummary {
  return { index: 0, uuid: "GPU-1", name: "Tesla T4", type: "NVIDIA_TESLA_T4", state, ...more };
}

function node(name: string, more: Partial<NodeSummary> = {}): NodeSummary {
  return { name, engine: "local", state: "READY", policy: "exact", region: "", vcpus: 8, memoryGigabytes: 30, gpus: {}, slots: 1, replicas: 0, seen: "", ...more };
}

test("a fleet is counted in words; nodes without devices have their counts", () => {
  const first = node("n1", { devices: [gpu("HELD"), gpu("FREE"), gpu("FREE")] });
  const second = node("n2", { gpus: { NVIDIA_TESLA_T4: 4 }, state: "DRAINED" });
  assert.equal(describeFleet([first, second]), "2 nodes (1 out of service), 7 GPUs: 1 held, 2 free");
  assert.equal(describeFleet([second]), "1 node (1 out of service), 4 GPUs");
  assert.equal(describeFleet([first, { ...second, gpusFree: 3 }]), "2 nodes (1 out of service), 7 GPUs: 2 held, 5 free");
  assert.equal(describeFleet([node("n3")]), "1 node");
});

test("GPUs that jobs hold on another server's machine are counted as held", () => {
  const other = node("n1", { devices: [gpu("FREE"), gpu("FREE"), gpu("FAULTY")], gpusFree: 1 });
  assert.equal(countHeldAsFree(other), 1);
  assert.equal(describeFleet([other]), "1 node, 3 GPUs: 1 held, 1 free, 1 faulty");
  assert.equal(countHeldAsFree(node("n2", { devices: [gpu("HELD"), gpu("FREE")], gpusFree: 1 })), 0);
});

test("a node without devices has counts of its GPUs; a notice and a policy are words", () => {
  const gpus = { NVIDIA_TESLA_T4: 4, NVIDIA_TESLA_V100: 2 };
  assert.equal(describeGpuCounts(node("n", { gpus, gpusFree: 3 })), "4 × T4, 2 × V100, 3 free");
  assert.equal(describeGpuCounts(node("n", { gpus, gpusFree: 0 })), "4 × T4, 2 × V100, none free");
  assert.equal(describeGpuCounts(node("n", { gpus })), "4 × T4, 2 × V100");
  assert.equal(describeGpuCounts(node("n", { gpusFree: 0 })), "");
  assert.equal(describeUnread(node("n", { gpus })), "");
  assert.equal(describeUnread(node("n", { orderCommand: "scontrol" })), "");
  assert.equal(describeUnread(node("n", { gpus, orderCommand: "scontrol" })), "The Usage page of a job shows the use of its GPUs here.");
  const notices = ["3600s", "120s", "90s", "5400.5s", "86401s", "0s", "1s"].map(describeNotice);
  assert.deepEqual(notices, ["1 hour of notice", "2 minutes of notice", "1 minute 30 seconds of notice", "1 hour 30 minutes 0.5 seconds of notice",
    "1 day 1 second of notice", "no notice", "1 second of notice"]);
  assert.equal(describeNotice(null), "");
});

test("a filter finds names, jobs and states of GPUs", () => {
  const nodes = [node("n1", { devices: [gpu("FAULTY")] }), node("n2", { jobs: ["projects/p/jobs/resnet"] })];
  assert.deepEqual(filterNodes(nodes, "faulty").map(({ name }) => name), ["n1"]);
  assert.deepEqual(filterNodes(nodes, " RESNET ").map(({ name }) => name), ["n2"]);
  const nameOf = (job: string): string => `nightly of ${job}`;
  assert.deepEqual(filterNodes(nodes, "nightly", nameOf).map(({ name }) => name), ["n2"]);
  assert.equal(filterNodes(nodes, "").length, 2);
  assert.equal(filterNodes(nodes, "none").length, 0);
});

test("names of jobs are short, those of ml trials have their study", () => {
  assert.equal(jobTitle("projects/p/locations/us-central1/customJobs/123"), "123");
  assert.equal(jobTitle("projects/p/jobs/tune/trials/3"), "tune/trials/3");
});

test("a tile says the job and its use", () => {
  assert.equal(gpuNote(gpu("HELD", { job: "projects/p/jobs/resnet", idleSeconds: 60 })), "resnet");
  assert.equal(gpuNote(gpu("HELD", { job: "projects/p/jobs/resnet", idleSeconds: 2520 })), "idle 42 min · resnet");
  assert.equal(gpuNote(gpu("HELD", { job: "projects/p/jobs/resnet" }), () => "nightly"), "nightly");
  assert.equal(gpuNote(gpu("FREE")), "");
});

test("an instance of a divided GPU is told from a whole one", () => {
  assert.ok(isInstance(gpu("FREE", { uuid: "MIG-1" })));
  assert.ok(!isInstance(gpu("FREE")));
});

test("a notice is a number of seconds", () => {
  assert.equal(parseNotice("120"), 120);
  assert.equal(parseNotice(" 0.5 s "), 0.5);
  for (const text of ["", "-1", "2m", "1e9", "1000000"]) assert.equal(parseNotice(text), null, text);
});

test("a GPU that its job has not used for ten minutes is held and idle", () => {
  const nodes = [node("n1", { devices: [gpu("HELD", { idleSeconds: 599 }), gpu("HELD", { idleSeconds: 600 }), gpu("FREE"), gpu("HELD", { idleSeconds: null })] })];
  assert.equal(countHeldIdle(nodes), 1);
});

test("what is not measured of a GPU is left out, never 0", () => {
  assert.equal(describeReading({ at: null, use: 0.934, usedBytes: 12e9, powerWatts: 279.6 }), "93 % · 12 GB · 280 W");
  assert.equal(describeReading({ at: null, use: null, powerWatts: 0 }), "0 W");
  assert.equal(describeReading(null), "");
  const devices = [gpu("HELD", { reading: { at: null, use: 1, powerWatts: 700 } }), gpu("HELD", { reading: { at: null, use: 0.5, powerWatts: 650 } }), gpu("FREE")];
  assert.equal(describeUse(node("n1", { devices })), "75 % · 1,350 W");
  assert.equal(describeUse(node("n1", { devices: [gpu("FREE")] })), "");
});

test("the line of recent use is broken where nothing was measured", () => {
  assert.equal(sparkPath([0, 0.5, null, 1, null], 40, 10), "M0.0 10.0L10.0 5.0M30.0 0.0h1");
  assert.equal(sparkPath([null, null], 40, 10), "");
  assert.equal(sparkPath([], 40, 10), "");
  assert.equal(sparkPath([2, -1], 40, 10), "M0.0 0.0L40.0 10.0");
});
