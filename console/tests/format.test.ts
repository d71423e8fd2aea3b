import assert from "node:assert/strict";
import { test } from "node:test";

import { formatAccelerators, formatBytes, formatCount, formatDuration, formatNumber, formatSpan, parseResource, shorten } from "../src/core/format";
import { showHidden } from "../src/core/hidden";
import { sentence } from "../src/ui/notice";

test("durations have two units at most", () => {
  const texts: Array<[number, string]> = [
    [-5, "0 s"], [0, "0 s"], [59.9, "59 s"], [60, "1 min 00 s"], [599, "9 min 59 s"], [600, "10 min"],
    [3599, "59 min"], [3600, "1 h 00 min"], [10920, "3 h 02 min"], [86400, "1 d 0 h"], [187200, "2 d 4 h"],
  ];
  for (const [seconds, text] of texts) assert.equal(formatDuration(seconds), text);
});

test("a span without an end goes to now, one without a start is empty", () => {
  const start = "2026-11-29T10:00:00Z";
  assert.equal(formatSpan(start, null, Date.parse(start) + 12000), "12 s");
  assert.equal(formatSpan(start, "2026-11-29T10:00:05.5Z", 0), "5 s");
  assert.equal(formatSpan(undefined, null, 0), "");
  assert.equal(formatSpan("not a time", null, 0), "");
});

test("numbers", () => {
  assert.equal(formatCount(1234567), "1,234,567");
  assert.equal(formatNumber(0.99163), "0.9916");
  assert.equal(formatNumber(NaN), "NaN");
  assert.equal(formatNumber(41200), "41,200");
  for (const [bytes, text] of [[0, "0 B"], [999, "999 B"], [1000, "1 kB"], [31200000000, "31.2 GB"], [999999, "1 MB"]] as const) {
    assert.equal(formatBytes(bytes), text);
  }
});

test("accelerators without their vendor", () => {
  assert.equal(formatAccelerators({ NVIDIA_TESLA_T4: 4, NVIDIA_A100_80GB: 1, NVIDIA_L4: 0 }), "4 × T4, 1 × A100 80GB");
  assert.equal(formatAccelerators({}), "");
});

test("resource names of both dialects", () => {
  assert.deepEqual(parseResource("projects/demo/jobs/ddp_1"), { project: "demo", job: "ddp_1" });
  assert.deepEqual(parseResource("projects/p/locations/us/customJobs/12"), { project: "p", job: "12" });
  assert.deepEqual(parseResource("projects/p/jobs/study_1/trials/3"), { project: "p", job: "study_1" });
  assert.equal(parseResource("nodes/n1"), null);
});

test("hidden characters become visible", () => {
  assert.equal(showHidden("a\u0000b\u001bc"), "a⟨NUL⟩b⟨ESC⟩c");
  assert.equal(showHidden("user\u202egpj.exe"), "user⟨RLO⟩gpj.exe");
  assert.equal(showHidden("\u061c\u00ad\ufff9\u{e0041}\ud800"), "⟨ALM⟩⟨SHY⟩⟨U+FFF9⟩⟨U+E0041⟩\ufffd");
  assert.equal(showHidden("line\nnext\ttab"), "line\nnext\ttab");
});

test("a cut text does not cut a character", () => {
  assert.equal(shorten("😀😀😀", 2), "😀…");
  assert.equal(shorten("abc", 3), "abc");
});

test("a sentence begins with a capital letter, and a name stays as it is", () => {
  assert.equal(sentence("fitting nodes are in use"), "Fitting nodes are in use.");
  assert.equal(sentence("note: it ended"), "Note: it ended.");
  assert.equal(sentence("gs://bucket/a.tar.gz: no such file"), "gs://bucket/a.tar.gz: no such file.");
  assert.equal(sentence("node-5 is drained"), "node-5 is drained.");
});
