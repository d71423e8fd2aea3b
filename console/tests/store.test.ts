import assert from "node:assert/strict";
import { test } from "node:test";

import type { JobSummary } from "../src/net/types";

Object.assign(globalThis, { document: { hidden: true, addEventListener: () => undefined, querySelector: () => null }, window: globalThis });
const { JobStore } = await import("../src/pages/job/data");
const { nameOf } = await import("../src/ui/keys");

const summaryOf = (state: string): JobSummary => ({ uid: "u", state, replicas: [] }) as unknown as JobSummary;

test("an answer that is older than an event of the stream does not replace it", async () => {
  const store = new JobStore("p", "j");
  let answer = (_: Response): void => undefined;
  globalThis.fetch = (path) => (String(path).includes("/events") ? Promise.resolve(Response.json({ events: [] })) : new Promise((resolve) => (answer = resolve)));
  const reading = store.reload();
  store.take(summaryOf("SUCCEEDED"));
  answer(Response.json(summaryOf("RUNNING")));
  await reading;
  assert.equal(store.summary.value?.state, "SUCCEEDED");
});

test("a key press has one name on every system", () => {
  const press = (fields: object): string => nameOf({ key: "f", ctrlKey: false, metaKey: false, shiftKey: false, ...fields } as KeyboardEvent);
  assert.deepEqual([press({}), press({ ctrlKey: true }), press({ metaKey: true }), press({ key: "F", shiftKey: true }), press({ key: "End", shiftKey: true })],
    ["f", "Ctrl+F", "Ctrl+F", "F", "Shift+End"]);
});
