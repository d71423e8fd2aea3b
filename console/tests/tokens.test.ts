import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const css = readFileSync("src/styles/tokens.css", "utf8");

/** The colours of the light and of the dark theme, by their names. */
function tokensOf(theme: "light" | "dark"): Record<string, string> {
  const pairs = css.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);/g);
  return Object.fromEntries([...pairs].map(([, name, light, dark]) => [name, theme === "light" ? light : dark]));
}

function luminance(colour: string): number {
  const parts = [1, 3, 5].map((index) => parseInt(colour.slice(index, index + 2), 16) / 255);
  const [red = 0, green = 0, blue = 0] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].sort((left, right) => right - left);
  return (light + 0.05) / (dark + 0.05);
}

const GROUNDS = ["ground", "ground-2", "ground-3"];
const PAIRS: Array<[string, string[]]> = [
  ["text", [...GROUNDS, "accent-ground", "good-ground", "warning-ground", "error-ground", "mark"]],
  ["text-2", [...GROUNDS, "accent-ground"]],
  ["accent", [...GROUNDS, "accent-ground"]],
  ["accent-text", ["accent"]],
  ["good", [...GROUNDS, "good-ground", "accent-ground"]],
  ["warning", [...GROUNDS, "warning-ground", "accent-ground"]],
  ["error", [...GROUNDS, "error-ground", "accent-ground"]],
  ["wait", [...GROUNDS, "wait-ground", "accent-ground"]],
];

test("text has a contrast of 4.5 in both themes, borders of controls 3", () => {
  for (const tokens of [tokensOf("light"), tokensOf("dark")]) {
    for (const [name, grounds] of PAIRS) {
      for (const ground of grounds) {
        const value = contrast(tokens[name] ?? "", tokens[ground] ?? "");
        assert.ok(value >= 4.5, `${name} on ${ground} of ${tokens.ground}: ${value.toFixed(2)}`);
      }
    }
    assert.ok(contrast(tokens["line-strong"] ?? "", tokens.ground ?? "") >= 3);
  }
});
