import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { readFilter } from "../src/core/queue";
import { ApiError, callApi, readLines } from "../src/net/api";
import { outage, reportAnswer } from "../src/net/connection";
import type { JobRow } from "../src/net/types";
import { QueueModel } from "../src/pages/queue/model";

type Answer = (path: string) => Response;

/** Answer the page's calls; gives the paths. */
function answerCalls(answer: Answer): string[] {
  const paths: string[] = [];
  globalThis.fetch = async (path, options) => {
    options?.signal?.throwIfAborted();
    paths.push(String(path));
    return answer(String(path));
  };
  return paths;
}

/** An answer whose body ends in the middle, as that of a killed server does. */
function brokenAnswer(text: string, status = 200): Response {
  let isBroken = false;
  const body = new ReadableStream({
    pull(controller) {
      if (isBroken) controller.error(new TypeError("network error"));
      else controller.enqueue(new TextEncoder().encode(text));
      isBroken = true;
    },
  });
  return new Response(body, { status });
}

const isAway = (error: unknown): boolean => error instanceof ApiError && error.isAway;

afterEach(reportAnswer);

test("a body that ends in the middle is a server that is away", async () => {
  answerCalls(() => brokenAnswer('{"jobs": ['));
  await assert.rejects(callApi("GET", "/nodes"), isAway);
  assert.ok(outage.value);
  answerCalls(() => brokenAnswer('{"error": ', 400));
  await assert.rejects(callApi("GET", "/nodes"), isAway);
  const lines: unknown[] = [];
  answerCalls(() => brokenAnswer('{"n": 1}\n{"n"'));
  await assert.rejects(readLines("/logs:search", {}, (line) => lines.push(line)), isAway);
  assert.deepEqual(lines, [{ n: 1 }]);
});

const job = (uid: string, state = "SUCCEEDED"): Partial<JobRow> => ({ uid, state: state as JobRow["state"], displayName: uid, gpus: {}, createTime: "2026-11-29T10:00:00Z" });
const pageOf = (uids: readonly string[], nextPageToken = ""): Response => Response.json({ jobs: uids.map((uid) => job(uid)), nextPageToken });
const ended = readFilter(new URLSearchParams("show=ended"));

/** A list of ended jobs of which the first page was read. */
async function endedList(): Promise<QueueModel> {
  const model = new QueueModel("p");
  answerCalls(() => pageOf(["a"], "next"));
  model.setFilter(ended);
  await settle();
  assert.deepEqual(model.shown.value, ["a"]);
  return model;
}

const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

test("a list of ended jobs goes on after a page that could not be read", async () => {
  const model = await endedList();
  answerCalls(() => brokenAnswer("{"));
  await model.readMore();
  answerCalls((path) => pageOf(path.includes("pageToken=next") ? ["b"] : []));
  await model.readMore();
  assert.deepEqual(model.shown.value, ["a", "b"]);
  assert.ok(!model.hasMore.value);
});

test("a list of ended jobs that the user comes back to is read on", async () => {
  const model = await endedList();
  model.close();
  model.setFilter(ended);
  const paths = answerCalls((path) => pageOf(path.includes("pageToken") ? ["b"] : ["c", "a"], path.includes("pageToken") ? "" : "next"));
  model.onEvent({ type: "ready", data: null });
  await settle();
  assert.deepEqual([...model.shown.value].sort(), ["a", "c"]);
  await model.readMore();
  assert.deepEqual([...model.shown.value].sort(), ["a", "b", "c"]);
  assert.equal(paths.length, 2);
});

test("a list of ended jobs keeps no row of an open one", async () => {
  const model = await endedList();
  model.onEvent({ type: "queue", data: { jobs: [job("open", "RUNNING"), job("b")] } });
  assert.deepEqual([...model.rows.value.keys()], ["a", "b"]);
});
