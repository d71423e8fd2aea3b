import assert from "node:assert/strict";
import { test } from "node:test";

import { callName, matchesEntry, resourceOf } from "../src/core/audit";
import { parseEvent } from "../src/core/events";

test("an event has its type, its data and its topic", () => {
  assert.deepEqual(parseEvent('event: queue\ndata: {"topic":"queue:-","jobs":[]}'), { type: "queue", data: { topic: "queue:-", jobs: [] }, topic: "queue:-" });
  assert.deepEqual(parseEvent("event: ready\ndata: {}"), { type: "ready", data: {} });
  assert.equal(parseEvent(":"), null);
  assert.equal(parseEvent(""), null);
});

test("entries of the audit log by text and refusal", () => {
  const entry = { time: "", caller: "ada", credential: "k1", address: "::1", method: "POST", resource: "/x/CUSTOM", project: "p", status: "OK" };
  assert.ok(matchesEntry(entry, " custom ", false));
  assert.ok(!matchesEntry(entry, "bob", false));
  assert.ok(!matchesEntry(entry, "", true));
});

test("a call has the name of its verb or method", () => {
  assert.equal(callName({ method: "POST /trainshed/v1/tokens" }), "POST");
  assert.equal(callName({ method: "google.cloud.aiplatform.v1.JobService/CreateCustomJob" }), "CreateCustomJob");
  assert.equal(callName({ method: "" }), "");
});

test("the resource of a call is shown without what all calls of a project share", () => {
  const job = "/v1/projects/demo/locations/us-central1/customJobs/12:cancel";
  assert.equal(resourceOf({ resource: job, project: "demo" }), "customJobs/12:cancel");
  assert.equal(resourceOf({ resource: job, project: "" }), "projects/demo/locations/us-central1/customJobs/12:cancel");
  assert.equal(resourceOf({ resource: "/trainshed/v1/tokens/3", project: "" }), "tokens/3");
  assert.equal(resourceOf({ resource: "/v1/projects/demo/jobs", project: "demo" }), "jobs");
  assert.equal(resourceOf({ resource: "/storage/v1/b/data/o", project: "demo" }), "/storage/v1/b/data/o");
  assert.equal(resourceOf({ resource: "/token", project: "" }), "/token");
});
