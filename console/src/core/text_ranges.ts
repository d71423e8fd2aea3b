/** Positions and ranges in a text: the server counts characters, JavaScript counts UTF-16 units. Pure. */

import type { TextEdit } from "../net/types";

export interface Position {
  line: number;
  column: number;
}

export interface Edit {
  from: number;
  to: number;
  text: string;
}

/** Return the text with `\n` between its lines, as an editor holds it: places in it are those of the checked text. */
export function withPlainEnds(text: string): string {
  return text.replace(/\r\n?/g, "\n");
}

/** Return the UTF-16 units before the character at `column`, which counts from 1. */
export function unitsBefore(lineText: string, column: number): number {
  let units = 0;
  let left = column - 1;
  for (const character of lineText) {
    if (left <= 0) break;
    left -= 1;
    units += character.length;
  }
  return units;
}

/** Return the offset of a position in a text with `\n` between lines; positions outside are moved inside. */
export function offsetOf(text: string, { line, column }: Position): number {
  let start = 0;
  for (let count = 1; count < line; count += 1) {
    const end = text.indexOf("\n", start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  const end = text.indexOf("\n", start);
  return start + unitsBefore(text.slice(start, end < 0 ? text.length : end), Math.max(1, column));
}

/** Return a server's edit as offsets in the text that was checked. */
export function editOf(text: string, edit: TextEdit): Edit {
  const from = offsetOf(text, edit);
  const to = offsetOf(text, { line: edit.endLine, column: edit.endColumn });
  return { from, to: Math.max(from, to), text: edit.text };
}

/** Return the number of the first line, from 1, in which a text differs from the one before; null if none does. */
export function firstChangedLine(before: string, after: string): number | null {
  const old = before.split("\n");
  const index = after.split("\n").findIndex((line, at) => line !== old[at]);
  return index < 0 ? null : index + 1;
}
