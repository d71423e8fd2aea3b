import assert from "node:assert/strict";
import { test } from "node:test";

import type { LogWindow } from "../src/net/schemas";
import { LogFeed, type WindowQuery } from "../src/pages/log/feed";
import { findLiteral, splitLine } from "../src/pages/log/pieces";
import { parseJump, stampText, timeText, type WireLine } from "../src/pages/log/rows";
import { describeUnlisted, HITS_MAX, LogSearch, nextHit, type Hit, type ReadHits } from "../src/pages/log/search";

const BASE = 1_795_991_680_000_000_000n;
const stampOf = (number: number): string => String(BASE + BigInt(number));

/** A log whose line `n` has the stamp BASE + n, and sentences of the service at some stamps. */
class FakeLog {
  readonly queries: WindowQuery[] = [];
  constructor(public length: number, readonly sentences: readonly number[] = [], readonly from = 1) {}

  read = async (query: WindowQuery): Promise<LogWindow> => {
    this.queries.push(query);
    const at = this.positionOf(query);
    const before = "end" in query ? query.count : query.before ?? 0;
    const first = Math.max(this.from, at - Math.min(before, query.count));
    const last = Math.min(this.length, first + query.count - 1);
    const until = last >= this.length ? Infinity : last;
    const lines: WireLine[] = [];
    for (let n = first; n <= last; n += 1) lines.push([n, stampOf(n * 10), "w", "INFO", `line ${n}`, 0]);
    const after = first === this.from ? -1 : (first - 1) * 10;
    for (const at of this.sentences) if (at > after && at <= until * 10) lines.push([null, stampOf(at), "service", "INFO", `sentence ${at}`, 0]);
    lines.sort((a, b) => Number(BigInt(a[1]) - BigInt(b[1])));
    return { total: this.length - this.from + 1, exact: true, first: first - this.from + 1, lines, tasks: ["w"], attempts: [] };
  };

  private positionOf(query: WindowQuery): number {
    if ("end" in query) return this.length + 1;
    if ("stamp" in query) return this.clamp(Math.ceil(Number(BigInt(query.stamp) - BASE) / 10));
    return this.clamp("line" in query ? query.line : query.row + this.from - 1);
  }

  private clamp(number: number): number {
    return Math.min(this.length + 1, number);
  }
}

const numbers = (feed: LogFeed): (number | null)[] => feed.rows.value.map((row) => row.number);

function assertWhole(feed: LogFeed): void {
  const own = numbers(feed).filter((number) => number !== null);
  own.forEach((number, index) => assert.equal(number, (own[0] ?? 0) + index));
}

test("the end, a line, a position and a stamp are shown with lines before them", async () => {
  const log = new FakeLog(100_000);
  const feed = new LogFeed(log.read);
  assert.equal((await feed.show({ end: true }))?.number, 100_000);
  assert.ok(feed.hasEnd.value);
  assert.equal((await feed.show({ line: 5000 }))?.number, 5000);
  assert.equal(feed.positionOf(feed.rows.value.findIndex((row) => row.number === 5000)), 5000);
  assert.equal((await feed.show({ row: 77 }))?.number, 77);
  assert.equal((await feed.show({ stamp: stampOf(1_234_5) }))?.number, 1235);
  assert.equal((await feed.show({ line: 999_999 }))?.number, 100_000);
});

test("reading to the start and back misses no line and no sentence, and holds few", async () => {
  const sentences = [3, 15, 5_003, 5_007, 19_999, 20_004];
  const feed = new LogFeed(new FakeLog(2000, sentences).read);
  const read = new Set<string>();
  await feed.show({ end: true });
  for (let round = 0; round < 20 && !feed.hasStart.value; round += 1) {
    await feed.extendAbove();
    feed.rows.value.forEach((row) => read.add(row.text));
    feed.forget(0);
    assertWhole(feed);
  }
  for (let round = 0; round < 20 && !feed.hasEnd.value; round += 1) {
    await feed.extendBelow();
    assertWhole(feed);
    feed.forget(feed.rows.value.length);
    assert.ok(feed.rows.value.length <= 2400);
  }
  assert.equal(read.size, 2000 + sentences.length);
  assert.equal(feed.rows.value[feed.rows.value.length - 1]?.text, "sentence 20004");
});

test("a follower gets every new line once, also more than one request returns", async () => {
  const log = new FakeLog(10);
  const feed = new LogFeed(log.read);
  await feed.show({ end: true });
  for (const length of [11, 500, 4000, 4001]) {
    log.length = length;
    await feed.announce(length, true);
    assert.equal(numbers(feed)[feed.rows.value.length - 1], length);
    assertWhole(feed);
  }
  log.length = 50_000;
  await feed.announce(50_000, true);
  assert.equal(numbers(feed)[feed.rows.value.length - 1], 50_000);
  assert.ok(feed.rows.value.length < 1000, "a follower that is far behind begins at the end");
});

test("lines that are written after a later sentence of the service are not missed", async () => {
  const log = new FakeLog(10, [5_000]);
  const feed = new LogFeed(log.read);
  await feed.show({ end: true });
  assert.equal(feed.rows.value.at(-1)?.text, "sentence 5000");
  log.length = 20;
  await feed.announce(20, true);
  assertWhole(feed);
  assert.deepEqual(feed.rows.value.slice(-2).map((row) => row.text), ["line 20", "sentence 5000"]);
  const empty = new FakeLog(0, [7]);
  const other = new LogFeed(empty.read);
  await other.show({ end: true });
  empty.length = 2;
  await other.announce(2, true);
  assert.deepEqual(other.rows.value.map((row) => row.text), ["sentence 7", "line 1", "line 2"]);
});

test("a reader that does not follow gets no lines, but knows of them", async () => {
  const log = new FakeLog(5000);
  const feed = new LogFeed(log.read);
  await feed.show({ line: 100 });
  const before = feed.rows.value;
  await feed.announce(6000, false);
  assert.equal(feed.rows.value, before);
  assert.equal(feed.total.value, 6000);
});

test("an empty log shows its first lines when they come", async () => {
  const log = new FakeLog(0);
  const feed = new LogFeed(log.read);
  assert.equal(await feed.show({ end: true }), null);
  log.length = 3;
  await feed.announce(3, true);
  assert.deepEqual(numbers(feed), [1, 2, 3]);
});

test("lines that were removed shift positions, not stamps", async () => {
  const feed = new LogFeed(new FakeLog(5000, [], 1001).read);
  const row = await feed.show({ stamp: stampOf(20_000) });
  assert.equal(row?.number, 2000);
  assert.equal(feed.positionOf(feed.rows.value.findIndex((other) => other.number === 2000)), 1000);
});

test("the log of a study, which has no numbers, is read by stamps in both directions", async () => {
  const all: WireLine[] = Array.from({ length: 1500 }, (_, at) => [null, stampOf(at), "w", "INFO", `line ${at}`, 0, String(at % 7)]);
  const feed = new LogFeed(async (query) => {
    assert.ok("end" in query || "stamp" in query, "a study refuses numbers");
    const at = "end" in query ? all.length : all.findIndex((line) => BigInt(line[1]) >= BigInt("stamp" in query ? query.stamp : 0));
    const from = Math.max(0, at - ("end" in query ? query.count : query.before ?? 0));
    return { exact: true, lines: all.slice(from, from + query.count), tasks: ["w"], attempts: [] };
  });
  assert.equal((await feed.show({ end: true }))?.text, "line 1499");
  assert.equal(feed.hasPositions.value, false);
  for (let round = 0; round < 10 && !feed.hasStart.value; round += 1) await feed.extendAbove();
  assert.equal(feed.rows.value.length, 1500);
  assert.equal((await feed.show({ stamp: stampOf(700) }))?.text, "line 700");
  for (let round = 0; round < 10 && !feed.hasEnd.value; round += 1) await feed.extendBelow();
  assert.equal(feed.rows.value.at(-1)?.text, "line 1499");
  assert.equal(feed.rows.value[0]?.task, `trial ${(700 - 60) % 7} w`);
});

test("an overtaken jump shows nothing", async () => {
  const log = new FakeLog(1000);
  const feed = new LogFeed(log.read);
  const slow = feed.show({ line: 1 });
  assert.equal((await feed.show({ line: 900 }))?.number, 900);
  assert.equal(await slow, null);
  assert.ok(numbers(feed).includes(900));
});

const hit = (n: number): Hit => ({ n, stamp: stampOf(n), task: "w", severity: "INFO", text: "x", columns: [[0, 1]] });

test("the next hit is behind the reader, and the search wraps around", () => {
  const hits = [hit(10), hit(20), hit(30)];
  const steps = [null, 5, 10, 25, 30].map((n) => nextHit(hits, n === null ? null : stampOf(n), 1));
  assert.deepEqual(steps, [0, 0, 1, 2, 0]);
  assert.deepEqual([5, 10, 25, 99].map((n) => nextHit(hits, stampOf(n), -1)), [2, 2, 1, 2]);
  assert.equal(nextHit([], null, 1), -1);
});

/** Answers a search over lines 1 to 1000, of which every 100th is a hit. */
const readHits: ReadHits = async (_query, from, limit, onLine, stop) => {
  let count = 0;
  for (let n = from; n <= 1000 && count < limit && !stop.aborted; n += 1) {
    if (n % 100 === 0) onLine(hit(n));
    if (n % 100 === 0) count += 1;
    if (n % 50 === 0) onLine({ searched: n / 1000 });
    await Promise.resolve();
  }
  onLine({ done: true, hits: count, complete: count < limit });
};
const TEXT = { text: "x", isExpression: false, matchesCase: false };

test("a search begins at the reader, goes on before it, and searches no line twice", async () => {
  for (const number of [1, 250, 300, 1000]) {
    const search = new LogSearch(readHits);
    const firsts: (number | null)[] = [];
    search.hits.subscribe((hits) => hits.length === 1 && firsts.push(hits[0]?.n ?? null));
    await search.start(TEXT, { number, share: (number - 1) / 1000 });
    assert.deepEqual(search.hits.value.map((own) => own.n), [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
    assert.equal(firsts[0], Math.ceil(number / 100) * 100);
    assert.ok(search.complete.value);
    assert.equal(search.searched.value, null);
  }
});

test("a search with more hits than are listed says which lines are not", async () => {
  const everyLine: ReadHits = async (_query, from, limit, onLine, stop) => {
    for (let n = from; n < from + limit && n <= 30000 && !stop.aborted; n += 1) onLine(hit(n));
    onLine({ done: true, hits: limit, complete: from + limit > 30000 });
  };
  const unlisted = async (number: number): Promise<string | null> => {
    const search = new LogSearch(everyLine);
    await search.start(TEXT, { number, share: (number - 1) / 30000 });
    assert.equal(search.hits.value.length, HITS_MAX);
    return describeUnlisted(search.hits.value, search.gap.value, search.begin.value);
  };
  const begins = "More lines have a hit than the 10,000 listed: ";
  assert.equal(await unlisted(1), `${begins}those behind line 10,000 are not listed.`);
  assert.equal(await unlisted(5001), `${begins}those behind line 15,000 and before line 5,001 are not listed.`);
  assert.equal(await unlisted(29001), `${begins}those between line 9,000 and line 29,001 are not listed.`);
  assert.equal(describeUnlisted([hit(1)], null, 1), null);
});

test("a search that the server ends after a minute goes on from its next line", async () => {
  const froms: number[] = [];
  const search = new LogSearch(async (_query, from, _limit, onLine) => {
    froms.push(from);
    if (from > 500) onLine(hit(700));
    onLine(from < 500 ? { done: true, hits: 0, complete: false, next: from + 250 } : { done: true, hits: 1, complete: true });
  });
  await search.start(TEXT);
  assert.deepEqual(froms, [1, 251, 501]);
  assert.ok(search.complete.value);
});

test("a window without lines is asked for again until the server has come to one", async () => {
  const empty = { exact: true, tasks: [], attempts: [], lines: [] };
  const answers: LogWindow[] = [
    { ...empty, unreadBefore: "500" }, { ...empty, unreadBefore: "300" },
    { ...empty, lines: [[null, "100", "w", "INFO", "first", 0]] },
  ];
  const queries: WindowQuery[] = [];
  const feed = new LogFeed(async (query) => (queries.push(query), answers.shift() ?? assert.fail()));
  assert.equal((await feed.show({ end: true }))?.text, "first");
  assert.deepEqual(queries.slice(1).map((query) => "stamp" in query && query.stamp), ["500", "300"]);
  const counted: LogWindow[] = [{ ...empty, exact: false, total: 1, first: 1 }, { ...empty, total: 0, first: 1 }];
  const other = new LogFeed(async () => counted.shift() ?? assert.fail());
  assert.equal(await other.show({ end: true }), null);
  assert.ok(other.ready.value && other.exact.value);
});

test("a search that is left takes no more hits", async () => {
  let send: ((n: number) => void) | null = null;
  const search = new LogSearch((_query, _from, _limit, onLine, stop) => new Promise((resolve) => {
    send = (n) => onLine(hit(n));
    stop.addEventListener("abort", () => resolve());
  }));
  const running = search.start(TEXT);
  send!(1);
  search.cancel();
  send!(2);
  await running;
  assert.equal(search.hits.value.length, 1);
  assert.equal(search.searched.value, null);
});

test("only http and https addresses become links, and a hit is marked across styles", () => {
  const links = (text: string): (string | null)[] => splitLine(text, false, []).map((piece) => piece.link).filter(Boolean);
  assert.deepEqual(links("see https://a.test/x?y=1). or http://b.test, javascript:alert(1) data:text/html,x http://user:pw@c.test/"), ["https://a.test/x?y=1", "http://b.test"]);
  const text = "a\u001b[31mbc\u001b[0md";
  const marked = splitLine(text, false, [[0, text.length - 1]]).filter((piece) => piece.isHit).map((piece) => piece.text).join("");
  assert.equal(marked, "abc");
  assert.deepEqual(findLiteral("Loss NaN nan", "nan", false), [[5, 8], [9, 12]]);
  assert.deepEqual(findLiteral("Loss NaN nan", "nan", true), [[9, 12]]);
});

test("times and targets of jumps", () => {
  assert.equal(stampText("1795991680123456789"), "2026-11-29T22:34:40.123456789Z");
  assert.equal(timeText("1795991680123456789", "utc", 0), "22:34:40.123");
  assert.equal(timeText("1795991680123456789", "since", 1795991670000), "+00:10.123");
  assert.deepEqual(parseJump("998,112", 0, true), { line: 998112 });
  assert.deepEqual(parseJump("22:34:40", 1795991680000, true), { stamp: "1795991680000000000" });
  assert.deepEqual(parseJump("2026-11-29T22:34:40Z", 0, true), { stamp: "1795991680000000000" });
  process.env.TZ = "Asia/Kolkata";
  assert.deepEqual(parseJump("2026-11-29", 0, false), { stamp: `${Date.parse("2026-11-28T18:30:00Z")}000000` });
  assert.deepEqual(parseJump("2026-11-29 14:02", 0, false), { stamp: `${Date.parse("2026-11-29T08:32:00Z")}000000` });
  assert.deepEqual(parseJump("2026-11-29", 0, true), { stamp: `${Date.parse("2026-11-29T00:00:00Z")}000000` });
  delete process.env.TZ;
  for (const text of ["", "loss", "step 12", "25:00", "12:75", "25 o'clock", "-"]) assert.equal(parseJump(text, 0, true), null);
});
