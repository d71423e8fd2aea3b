import assert from "node:assert/strict";
import { test } from "node:test";

import { countDifferences, isHeld, jobIdOf, orderRows, readFilter, toCsv } from "../src/core/queue";
import type { JobRow } from "../src/net/types";

function row(uid: string, fields: Partial<JobRow> = {}): JobRow {
  return {
    uid, name: `projects/p/locations/l/customJobs/${uid}`, displayName: `job-${uid}`, project: "p", kind: "CUSTOM_JOB",
    state: "RUNNING", attempt: 1, restarts: 0, gpus: {}, replicas: 1, nodes: 0, creator: "ada",
    createTime: `2026-11-29T10:00:0${uid}Z`, ...fields,
  } as JobRow;
}

const rows = [
  row("1", { state: "QUEUED", gpus: { T4: 4 } }),
  row("2", { creator: "bob", displayName: "Resnet" }),
  row("3", { state: "FAILED", endTime: "2026-11-29T10:01:00Z" }),
  row("4", { state: "ENQUEUED", kind: "TUNING_JOB" }),
];
const order = (query: string): string => orderRows(rows, readFilter(new URLSearchParams(query)), Date.parse("2026-11-29T11:00:00Z")).join("");

test("filters and orders of the address", () => {
  const orders: Record<string, string> = {
    "": "421", "show=all": "4321", "show=ended": "3", "state=QUEUED&state=ENQUEUED": "41", "kind=TUNING_JOB": "4", "creator=bob": "2",
    "q=RESNET": "2", "q=customJobs": "", "q=%20job-4%20": "4", "sort=created": "124", "sort=-gpus": "142", "sort=nonsense": "124", "show=nonsense": "421",
  };
  for (const [query, uids] of Object.entries(orders)) assert.equal(order(query), uids, query);
});

test("jobs without a price are the cheapest", () => {
  const byCost = readFilter(new URLSearchParams("show=all&sort=-cost"));
  const amounts = new Map([["1", 2], ["4", 10.5], ["3", 0]].map(([uid, amount]) => [`projects/p/locations/l/customJobs/${uid}`, Number(amount)]));
  assert.equal(orderRows(rows, byCost, 0, amounts).join(""), "4132");
});

test("a trial of AI Platform, whose name has slashes, is addressed by its uid", () => {
  assert.equal(jobIdOf({ name: "projects/p/jobs/tune/trials/3", uid: "7" }), "7");
  assert.equal(jobIdOf({ name: "projects/p/jobs/tune", uid: "8" }), "tune");
  assert.equal(jobIdOf({ name: "projects/p/locations/l/customJobs/9", uid: "9" }), "9");
});

test("only a job that the server holds is held, not one that its engine holds", () => {
  assert.equal(isHeld({ state: "QUEUED", waiting: { reason: "HELD" } }), true);
  assert.equal(isHeld({ state: "QUEUED", waiting: { reason: "CAPACITY" } }), false);
  assert.equal(isHeld({ state: "ENQUEUED", waiting: { reason: "HELD" } }), false);
  assert.equal(isHeld({ state: "RUNNING", waiting: null }), false);
});

test("changes between two orders are counted once each", () => {
  assert.equal(countDifferences(["a", "b"], ["b", "c", "d"]), 3);
  assert.equal(countDifferences([], []), 0);
});

test("a cell of the CSV is no formula", () => {
  const text = toCsv([row("5", { displayName: '=HYPERLINK("x"),1' }), row("6", { displayName: "@SUM" })]);
  assert.match(text, /^"'=HYPERLINK\(""x""\),1",p,/m);
  assert.match(text, /^'@SUM,/m);
});
