import assert from "node:assert/strict";
import { test } from "node:test";

import { jobPath, parseRoute, safeNext } from "../src/core/route";

test("each address has its page", () => {
  const pages: Array<[string, string, Record<string, string>]> = [
    ["/console", "queue", {}],
    ["/console/", "queue", {}],
    ["/console/jobs/demo/ddp_1", "job", { project: "demo", job: "ddp_1" }],
    ["/console/studies/demo/7", "study", { project: "demo", job: "7" }],
    ["/console/compare", "compare", {}],
    ["/console/settings", "settings", {}],
    ["/console/jobs/demo", "missing", {}],
    ["/console/elsewhere", "missing", {}],
  ];
  for (const [path, page, parameters] of pages) {
    const route = parseRoute(path, "?tab=log");
    assert.equal(route.page, page, path);
    assert.deepEqual(route.parameters, parameters);
    assert.equal(route.query.get("tab"), "log");
  }
});

test("a job's address keeps odd names", () => {
  const name = "a b/c%?#<x>";
  const path = jobPath("p", name);
  assert.deepEqual(parseRoute(path, "").parameters, { project: "p", job: name });
  assert.equal(parseRoute("/console/jobs/p/%E0%A4%A", "").parameters.job, "%E0%A4%A");
});

test("after the sign-in only own addresses follow", () => {
  for (const next of ["/console/", "/console/jobs/p/j?tab=log", "/console?q=1", "/console/?q=http://x//y"]) {
    assert.equal(safeNext(next), next);
  }
  const foreign = [
    null, "", "https://evil.test/console/", "//evil.test/console/", "/consoleX", "/trainshed/v1/signin", "javascript:alert(1)",
    "/console/../trainshed/v1/x", "/console//evil.test", "/console/\\evil.test", "/console/\n", " /console/", "/console/./x/..",
  ];
  for (const next of foreign) assert.equal(safeNext(next), "/console/", String(next));
});
