import assert from "node:assert/strict";
import { test } from "node:test";

import type { JobEvent } from "../src/net/schemas";
import { compareTexts, flatten, unmatchedLines } from "../src/pages/compare/differences";
import { copiesOf } from "../src/pages/job/copies";
import { changedLabels } from "../src/pages/job/labels";
import { quote } from "../src/core/format";
import { exportLines, readReplicas } from "../src/pages/job/replicas";
import { stateSpans } from "../src/pages/job/timeline";

const event = (seq: number, seconds: number, kind: string, attempt = 1): JobEvent => ({
  seq, time: new Date(seconds * 1000).toISOString(), attempt, kind, message: kind, data: {},
});

test("the states of a job follow each other without gaps", () => {
  const events = [event(1, 0, "ACCEPTED", 0), event(2, 10, "PLACED"), event(3, 10, "PREPARING"), event(4, 20, "RUNNING"),
    event(5, 60, "RESTART_ORDERED"), event(6, 65, "RESTARTING"), event(7, 70, "PREPARING", 2), event(8, 80, "RUNNING", 2), event(9, 100, "SUCCEEDED", 2)];
  const spans = stateSpans(events, 0);
  assert.deepEqual(spans.map((span) => span.state), ["QUEUED", "PREPARING", "RUNNING", "RESTARTING", "QUEUED", "PREPARING", "RUNNING"]);
  spans.slice(1).forEach((span, index) => assert.equal(span.from, spans[index]?.to));
  assert.ok(Math.abs(spans.reduce((sum, span) => sum + span.share, 0) - 1) < 1e-9);
  assert.equal(stateSpans(events.slice(0, 4), 50_000).at(-1)?.to, 50_000);
  assert.deepEqual(stateSpans([], 5), []);
});

test("rows that differ come first, and absent values differ", () => {
  const rows = compareTexts(new Map([["b", "1"], ["c", "x"]]), new Map([["b", "1"], ["a", "2"], ["c", "y"]]));
  assert.deepEqual(rows.map((row) => [row.name, row.differs]), [["a", true], ["c", true], ["b", false]]);
  assert.deepEqual([...flatten({ a: { b: [1, 2] }, c: [{ d: null }], e: {} })], [["a.b", "[1,2]"], ["c[0].d", "null"], ["e", "{}"]]);
  assert.deepEqual([...unmatchedLines("a\nb\nb", "b\nc")], [0, 2]);
});

test("a replica's environment is the plan's with what its supervisor adds", () => {
  const plan = {
    plan: { replicas: [{ task_name: "worker-replica-0", env: { RANK: "1" }, argv: ["python", "a b"], gpu_count: 2 }] },
    replicas: [{ task_name: "worker-replica-0", env: { TRAINSHED_TASK: "w" }, hosts: [["10.0.0.1", "a"], ["10.0.0.1", "b"]] }],
  };
  const [replica] = readReplicas([{ name: "plan.json", text: JSON.stringify(plan) }]);
  assert.deepEqual([...(replica?.variables ?? [])], [["RANK", "1"], ["TRAINSHED_TASK", "w"]]);
  assert.equal(replica?.settings.get("command"), "python 'a b'");
  assert.equal(replica?.settings.get("host 10.0.0.1"), "a b");
  for (const text of ["", "[]", "{", '{"plan": 5}', '{"plan": {"replicas": [1]}}']) assert.ok(readReplicas([{ name: "plan.json", text }]).length <= 1);
});

test("what is copied for a shell is one word", () => {
  assert.equal(quote("it's $HOME"), `'it'"'"'s $HOME'`);
  assert.equal(exportLines(new Map([["A", "1"], ["B", "x y"], ["no name", "z"]])), "export A=1\nexport B='x y'");
});

test("a text of labels changes only what differs", () => {
  const before = [["team", "vision"], ["old", "1"], ["same", "x"]] as const;
  assert.deepEqual({ ...changedLabels(before, "team=speech\nsame=x\n new = 2 \n__proto__=y") }, { old: null, team: "speech", new: "2", ["__proto__"]: "y" });
});

test("each API has its own commands, and no command that its job does not have", () => {
  const titles = (name: string): string[] => copiesOf(name, null, "http://127.0.0.1:8080").map((copy) => copy.title);
  assert.deepEqual(titles("projects/p/jobs/j"), ["resource name", "gcloud command", "curl command"]);
  assert.deepEqual(titles("projects/p/locations/l/customJobs/5"), ["resource name", "gcloud command", "Python of the Vertex SDK", "curl command"]);
  assert.deepEqual(titles("projects/p/locations/l/trainingPipelines/5"), ["resource name", "curl command"]);
});
