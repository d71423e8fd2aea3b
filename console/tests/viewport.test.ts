import assert from "node:assert/strict";
import { test } from "node:test";

import {
  compareStamps, DRAWN_MAX, drawnRange, indexOfStamp, lineAtShare, mergeRows, shareOfLine, shareOfOffset, thumbOf, trimRows,
} from "../src/core/viewport";

const rows = (...stamps: number[]): { key: string; stamp: string }[] => stamps.map((stamp) => ({ key: String(stamp), stamp: String(stamp) }));

test("stamps compare as numbers of any length", () => {
  assert.ok(compareStamps("999", "1000") < 0);
  assert.ok(compareStamps("1795991680000000001", "1795991680000000000") > 0);
  assert.equal(compareStamps("5", "5"), 0);
});

test("merged rows are in order, without gaps and doubles, wherever they overlap", () => {
  for (const [own, more] of [[[3, 4, 5], [1, 2, 3]], [[1, 2], [2, 3, 9]], [[1, 9], [4, 5]], [[], [1]], [[1], []]] as const) {
    const merged = mergeRows(rows(...own), rows(...more)).map((row) => Number(row.stamp));
    assert.deepEqual(merged, [...new Set([...own, ...more])].sort((a, b) => a - b));
  }
});

test("two rows of one stamp stay two", () => {
  const twins = [{ key: "5 a", stamp: "5" }, { key: "5", stamp: "5" }];
  assert.equal(mergeRows(rows(4), twins).length, 3);
});

test("few rows are drawn, and the visible ones are among them", () => {
  for (const length of [0, 10, 150, 151, 5000]) {
    for (const top of [0, 1, 75, 4000, length]) {
      const { from, to } = drawnRange(top, 40, length);
      assert.ok(to - from <= DRAWN_MAX && from >= 0 && to <= length);
      if (top + 40 <= length) assert.ok(from <= top && to >= top + 40, `${length} ${top}`);
    }
  }
});

test("trimmed rows are those around the reader", () => {
  const all = rows(...Array.from({ length: 100 }, (_, index) => index));
  assert.deepEqual(trimRows(all, 50, 10).map((row) => row.key), ["45", "46", "47", "48", "49", "50", "51", "52", "53", "54"]);
  assert.equal(trimRows(all, 99, 10)[9]?.key, "99");
  assert.equal(trimRows(all, 0, 10)[0]?.key, "0");
});

test("a stamp is found among rows", () => {
  const own = rows(10, 20, 30);
  assert.deepEqual(["5", "10", "11", "30", "31"].map((stamp) => indexOfStamp(own, stamp)), [0, 0, 1, 2, 3]);
});

test("the scrollbar's share names every line of a long log, and back", () => {
  const total = 1_000_000;
  for (const line of [0, 1, 499_999, total - 40]) {
    assert.equal(lineAtShare(shareOfLine(line, total, 40), total, 40), line);
  }
  assert.equal(shareOfLine(5, 10, 40), 0);
  const thumb = thumbOf(1, 40 / total, 500);
  assert.equal(thumb.offset + thumb.height, 500);
  assert.equal(shareOfOffset(thumb.offset, thumb.height, 500), 1);
});
