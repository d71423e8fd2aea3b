import assert from "node:assert/strict";
import { test } from "node:test";

import { parseLine } from "../src/core/ansi";

const shown = (text: string, raw = false): string => parseLine(text, raw).map((run) => run.text).join("");
const styled = (text: string): (readonly [string, string])[] => parseLine(text).map((run) => [run.text, run.classes] as const);

test("colours become classes", () => {
  assert.deepEqual(styled("\u001b[31mred \u001b[1mbold\u001b[0m plain"), [
    ["red ", "ansi-front-1"], ["bold", "ansi-bold ansi-front-1"], [" plain", ""],
  ]);
  assert.deepEqual(styled("\u001b[38;5;196ma\u001b[48;2;0;0;238mb\u001b[39;49mc"), [
    ["a", "ansi-front-9"], ["b", "ansi-front-9 ansi-back-4"], ["c", ""],
  ]);
  assert.deepEqual(styled("\u001b[4;7mx\u001b[24my"), [["x", "ansi-underline ansi-inverse"], ["y", "ansi-inverse"]]);
});

const HOSTILE: readonly (readonly [string, string])[] = [
  ["<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
  ["nul \u0000 bell \u0007", "nul ⟨NUL⟩ bell ⟨BEL⟩"],
  ["cut \u001b[31", "cut ⟨ESC⟩[31"],
  ["\u001b]8;;javascript:alert(1)\u001b\\here\u001b]8;;\u001b\\ after", "here after"],
  ["\u001b]8;;javascript:alert(1) no end", "⟨ESC⟩]8;;javascript:alert(1) no end"],
  ["\u001b]0;title\u0007text", "text"],
  ["rtl \u202egnp.exe\u202c", "rtl ⟨RLO⟩gnp.exe⟨PDF⟩"],
  ["a\u2066b\u2069c\u200bd\ufeff", "a⟨LRI⟩b⟨PDI⟩c⟨ZWSP⟩d⟨BOM⟩"],
  ["tag \u{e0041}", "tag ⟨U+E0041⟩"],
  ["lone \ud800 surrogate", "lone \ufffd surrogate"],
  ["\u009b31m", "⟨U+009B⟩31m"],
  ["line\u2028end", "line⟨LSEP⟩end"],
  ["\u001b[2J\u001b[Hcleared", "cleared"],
  ["tab\tkept, 中文 and 👩‍👩‍👧", "tab\tkept, 中文 and 👩‍👩‍👧"],
];

test("no character of a line moves, hides or reorders text", () => {
  for (const [text, expected] of HOSTILE) assert.equal(shown(text), expected);
});

test("carriage returns and backspaces draw over earlier text, as in a terminal", () => {
  assert.equal(shown("10%|#  |\r50%|## |\r100%|###| done"), "100%|###| done");
  assert.equal(shown("long text\rab"), "abng text");
  assert.equal(shown("long text\r\u001b[Kab"), "ab");
  assert.equal(shown("abc\b\bX"), "aXc");
  assert.equal(shown("end\r"), "end");
  assert.equal(shown("a\rb", true), "a⟨CR⟩b");
});

test("runs say where they are in the source, so that hits can be marked", () => {
  for (const text of ["\u001b[31mred\u001b[0m x", "abc\rX", "a\u202eb", "10%\r20%"]) {
    for (const run of parseLine(text)) {
      if (run.text.length === run.size) assert.equal(text.slice(run.at, run.at + run.size), run.text);
    }
  }
});

test("a line of any bytes is parsed in time that grows with its length", () => {
  const text = "\u001b]8;;".repeat(40000) + "\u001b[".repeat(40000);
  assert.ok(shown(text).length > 0);
});
