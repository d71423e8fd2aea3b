import assert from "node:assert/strict";
import { test } from "node:test";

import { offsetToShow, rowTop, totalHeight, visibleRange, type RowLayout } from "../src/core/rows";

const plain: RowLayout = { count: 5000, rowHeight: 34, detailIndex: -1, detailHeight: 0 };
const withDetail: RowLayout = { ...plain, detailIndex: 3, detailHeight: 200 };

test("few rows are elements, wherever the list stands", () => {
  for (const layout of [plain, withDetail]) {
    for (let top = 0; top < totalHeight(layout); top += 997) {
      const range = visibleRange(layout, top, 1000, 4);
      assert.ok(range.last - range.first <= 60);
      for (let index = 0; index < layout.count; index += 1) {
        const begin = rowTop(layout, index);
        if (begin < top + 1000 && begin + 34 > top) assert.ok(range.first <= index && index < range.last, `${top} ${index}`);
      }
    }
  }
});

test("an empty list has no rows", () => {
  assert.deepEqual(visibleRange({ ...plain, count: 0 }, 0, 500, 4), { first: 0, last: 0 });
  assert.equal(totalHeight({ ...plain, count: 0 }), 0);
});

test("a list that became shorter than its offset shows its end", () => {
  assert.deepEqual(visibleRange({ ...plain, count: 10 }, 100000, 500, 4), { first: 0, last: 10 });
});

test("rows behind an opened one stand lower", () => {
  assert.equal(rowTop(withDetail, 3), 102);
  assert.equal(rowTop(withDetail, 4), 336);
});

test("a row is shown with the least movement", () => {
  assert.equal(offsetToShow(plain, 10, 0, 1000), 0);
  assert.equal(offsetToShow(plain, 0, 500, 1000), 0);
  assert.equal(offsetToShow(plain, 40, 0, 1000), 394);
});
