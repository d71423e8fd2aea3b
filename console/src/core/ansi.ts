// Turns one line of a log into runs of text with style classes.  A line is written by a program
// that the page does not trust: no run holds a character that moves, hides or reorders text.
// Colours become class names, because the page's policy refuses inline styles.

import { HIDDEN, symbolOf } from "./hidden";

/** A piece of a shown line.  `at` and `size` are its range in the source, in UTF-16 units. */
export interface Run {
  readonly text: string;
  /** Names of classes, separated by blanks; empty for plain text. */
  readonly classes: string;
  readonly at: number;
  readonly size: number;
}

interface Style {
  readonly front: number | null;
  readonly back: number | null;
  readonly flags: ReadonlySet<string>;
}

const PLAIN: Style = { front: null, back: null, flags: new Set() };
const FLAGS: Readonly<Record<number, string>> = {
  1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "inverse", 9: "struck",
};
const CLEARED: Readonly<Record<number, readonly string[]>> = {
  22: ["bold", "faint"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["struck"],
};
/** The 16 colours as red, green, blue: the nearest one stands for any other colour. */
const PALETTE: readonly (readonly [number, number, number])[] = [
  [0, 0, 0], [205, 0, 0], [0, 205, 0], [205, 205, 0], [0, 0, 238], [205, 0, 205], [0, 205, 205],
  [229, 229, 229], [127, 127, 127], [255, 0, 0], [0, 255, 0], [255, 255, 0], [92, 92, 255],
  [255, 0, 255], [0, 255, 255], [255, 255, 255],
];
/** A sequence is read up to this length: a line without its end stays readable. */
const SEQUENCE_MAX = 4096;
/** In one line of a log also the end of a line is hidden. */
const UNSAFE = new RegExp(`\\n|${HIDDEN.source}`, "gu");
const MOVES = /[\r\b]|\u001b\[[0-9;]*K/;

/** Return the runs of a line.  `raw` shows escape sequences as symbols and applies none. */
export function parseLine(text: string, raw = false): readonly Run[] {
  if (text === "") return [];
  if (text.search(UNSAFE) < 0) return [{ text, classes: "", at: 0, size: text.length }];
  const runs = tokenize(text, raw);
  return !raw && MOVES.test(text) ? overlay(runs, text) : runs.filter((run) => run.text !== "");
}

function tokenize(text: string, raw: boolean): Run[] {
  const runs: Run[] = [];
  let style = PLAIN;
  let start = 0;
  for (const { index: at } of text.matchAll(UNSAFE)) {
    if (at < start) continue;
    if (at > start) runs.push(plainRun(text, start, at, style));
    const code = text.codePointAt(at) as number;
    const sequence = raw ? null : readSequence(text, at, code);
    const size = sequence?.size ?? (code > 0xffff ? 2 : 1);
    if (!sequence) runs.push({ text: symbolOf(code), classes: "ansi-symbol", at, size });
    else if (sequence.colours === null) runs.push({ text: "", classes: "", at, size });
    else style = applyColours(style, sequence.colours);
    start = at + size;
  }
  if (text.length > start) runs.push(plainRun(text, start, text.length, style));
  return runs;
}

function plainRun(text: string, from: number, to: number, style: Style): Run {
  return { text: text.slice(from, to), classes: classesOf(style), at: from, size: to - from };
}

interface Sequence {
  readonly size: number;
  /** The parameters of a change of colours; null for a sequence that is dropped. */
  readonly colours: readonly number[] | null;
}

/** Read a whole escape sequence; null if `at` begins none, or none that has an end. */
function readSequence(text: string, at: number, code: number): Sequence | null {
  if (code !== 0x1b) return null;
  const kind = text[at + 1];
  const rest = text.slice(at, at + SEQUENCE_MAX);
  if (kind === "[") {
    const match = /^\u001b\[([0-?]*)[ -/]*([@-~])/.exec(rest);
    if (!match) return null;
    const colours = match[2] === "m" && /^[0-9;:]*$/.test(match[1] ?? "");
    return { size: match[0].length, colours: colours ? numbersOf(match[1] ?? "") : null };
  }
  if (kind === "]" || kind === "P" || kind === "_" || kind === "^" || kind === "X") {
    // The text of a title, a hyperlink or a device string ends with BEL or ESC \.
      const match = /^\u001b[\]P_^X][^\u0007\u001b]*(?:\u0007|\u001b\\)/.exec(rest);
    return match ? { size: match[0].length, colours: null } : null;
  }
  const match = /^\u001b[ -/]*[0-~]/.exec(rest);
  return match ? { size: match[0].length, colours: null } : null;
}

function numbersOf(text: string): readonly number[] {
  return text === "" ? [0] : text.split(/[;:]/).map((part) => Number(part || "0"));
}

function applyColours(style: Style, numbers: readonly number[]): Style {
  let next = style;
  for (let index = 0; index < numbers.length; index += 1) {
    const number = numbers[index] as number;
    if (number === 38 || number === 48) {
      const [colour, used] = extendedColour(numbers, index + 1);
      if (colour !== null) next = { ...next, [number === 38 ? "front" : "back"]: colour };
      index += used;
    } else {
      next = applyNumber(next, number);
    }
  }
  return next;
}

function applyNumber(style: Style, number: number): Style {
  if (number === 0) return PLAIN;
  const flag = FLAGS[number];
  if (flag) return { ...style, flags: new Set([...style.flags, flag]) };
  const cleared = CLEARED[number];
  if (cleared) {
    return { ...style, flags: new Set([...style.flags].filter((f) => !cleared.includes(f))) };
  }
  if (number === 39) return { ...style, front: null };
  if (number === 49) return { ...style, back: null };
  if (number >= 30 && number <= 37) return { ...style, front: number - 30 };
  if (number >= 90 && number <= 97) return { ...style, front: number - 82 };
  if (number >= 40 && number <= 47) return { ...style, back: number - 40 };
  if (number >= 100 && number <= 107) return { ...style, back: number - 92 };
  return style;
}

/** Return the nearest of the 16 colours, and how many numbers describe the colour. */
function extendedColour(numbers: readonly number[], at: number): [number | null, number] {
  if (numbers[at] === 5) return [ofTable(numbers[at + 1] ?? 0), 2];
  if (numbers[at] !== 2) return [null, 1];
  return [nearest(numbers[at + 1] ?? 0, numbers[at + 2] ?? 0, numbers[at + 3] ?? 0), 4];
}

function ofTable(index: number): number {
  if (index < 16) return index;
  if (index >= 232) return nearest(...grey(8 + (index - 232) * 10));
  const level = (value: number): number => (value === 0 ? 0 : 55 + value * 40);
  const cube = index - 16;
  return nearest(
    level(Math.floor(cube / 36) % 6), level(Math.floor(cube / 6) % 6), level(cube % 6),
  );
}

function grey(value: number): [number, number, number] {
  return [value, value, value];
}

function nearest(red: number, green: number, blue: number): number {
  let best = 0;
  let least = Infinity;
  PALETTE.forEach(([r, g, b], index) => {
    const distance = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}

function classesOf(style: Style): string {
  if (style === PLAIN) return "";
  const names = [...style.flags].map((flag) => `ansi-${flag}`);
  if (style.front !== null) names.push(`ansi-front-${style.front}`);
  if (style.back !== null) names.push(`ansi-back-${style.back}`);
  return names.join(" ");
}

/** Draw runs as a terminal does: CR and backspace move, later characters replace earlier ones. */
function overlay(runs: readonly Run[], source: string): readonly Run[] {
  const cells: Run[] = [];
  let column = 0;
  for (const run of runs) {
    const moved = moveOf(run, source, column);
    if (moved !== null) {
      column = moved;
    } else if (isErasure(run, source)) {
      cells.length = Math.min(cells.length, column);
    } else {
      for (const cell of cellsOf(run)) cells[column++] = cell;
    }
  }
  for (let index = 0; index < cells.length; index += 1) cells[index] ??= BLANK;
  return joined(cells);
}

const BLANK: Run = { text: " ", classes: "", at: -1, size: 0 };

function moveOf(run: Run, source: string, column: number): number | null {
  if (run.classes !== "ansi-symbol" || run.size !== 1) return null;
  if (source[run.at] === "\r") return 0;
  return source[run.at] === "\b" ? Math.max(0, column - 1) : null;
}

function isErasure(run: Run, source: string): boolean {
  return run.text === "" && /^\u001b\[[02]?K$/.test(source.slice(run.at, run.at + run.size));
}

function* cellsOf(run: Run): Iterable<Run> {
  if (run.text === "") return;
  if (run.text.length !== run.size) {
    yield run;
    return;
  }
  let at = run.at;
  for (const character of run.text) {
    yield { text: character, classes: run.classes, at, size: character.length };
    at += character.length;
  }
}

function joined(cells: readonly Run[]): readonly Run[] {
  const runs: Run[] = [];
  for (const cell of cells) {
    const last = runs[runs.length - 1];
    const continues = last && last.classes === cell.classes && last.at + last.size === cell.at;
    if (continues && last.text.length === last.size && cell.text.length === cell.size) {
      runs[runs.length - 1] = { ...last, text: last.text + cell.text, size: last.size + cell.size };
    } else {
      runs.push(cell);
    }
  }
  return runs;
}
