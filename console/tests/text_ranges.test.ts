import assert from "node:assert/strict";
import { test } from "node:test";

import { editOf, firstChangedLine, offsetOf, unitsBefore, withPlainEnds } from "../src/core/text_ranges";

const TEXT = "a: 1\n😀b: 22\n\nlast";

test("a character outside of the first plane is one column and two units", () => {
  assert.equal(unitsBefore("😀b", 1), 0);
  assert.equal(unitsBefore("😀b", 2), 2);
  assert.equal(unitsBefore("😀b", 99), 3);
});

test("positions become offsets, and positions outside are moved inside", () => {
  assert.equal(offsetOf(TEXT, { line: 1, column: 4 }), 3);
  assert.equal(TEXT.slice(offsetOf(TEXT, { line: 2, column: 5 })), "22\n\nlast");
  assert.equal(offsetOf(TEXT, { line: 3, column: 9 }), 13);
  assert.equal(offsetOf(TEXT, { line: 99, column: 1 }), TEXT.length);
  assert.equal(offsetOf(TEXT, { line: 1, column: -3 }), 0);
});

test("an edit replaces what the server meant", () => {
  const edit = editOf(TEXT, { line: 2, column: 5, endLine: 2, endColumn: 7, text: "4", title: "Use 4" });
  assert.equal(TEXT.slice(0, edit.from) + edit.text + TEXT.slice(edit.to), "a: 1\n😀b: 4\n\nlast");
});

test("the places of a file with other ends of lines are those of the editor's text", () => {
  const text = withPlainEnds("a: 1\r\nb: 2\rc: 3\n");
  assert.equal(text, "a: 1\nb: 2\nc: 3\n");
  assert.equal(offsetOf(text, { line: 3, column: 1 }), 10);
});

test("the first line that a change changed", () => {
  assert.equal(firstChangedLine("a\nb\nc", "a\nB\nc"), 2);
  assert.equal(firstChangedLine("a\nb", "a\nb\nc"), 3);
  assert.equal(firstChangedLine("a\nb", "a\nb"), null);
});
