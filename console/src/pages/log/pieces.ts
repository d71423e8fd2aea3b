/** Splits a line into pieces for the screen: styles, marks of a search, and links. Pure. */

import { parseLine, type Run } from "../../core/ansi";

interface Piece {
  readonly text: string;
  readonly classes: string;
  /** Whether the piece is part of a hit of the search. */
  readonly isHit: boolean;
  /** An http or https address; null for text. */
  readonly link: string | null;
}

/** A half-open range of the line's text, in UTF-16 units. */
export type TextRange = readonly [number, number];

/** A line is drawn up to this length until the user asks for all of it. */
export const DRAWN_LENGTH_MAX = 2000;
/** A line has at most this many pieces; the rest is one piece without styles. */
const PIECES_MAX = 400;
const ADDRESS = /https?:\/\/[^\s<>"'`\\^{|}⟨⟩]+/g;

/** Return the pieces of a line. `raw` shows escape sequences as symbols. */
export function splitLine(text: string, raw: boolean, hits: readonly TextRange[]): readonly Piece[] {
  const pieces = parseLine(text, raw).flatMap((run) => splitRun(run, hits));
  if (pieces.length <= PIECES_MAX) return pieces;
  const rest = pieces.slice(PIECES_MAX).map((piece) => piece.text).join("");
  return [...pieces.slice(0, PIECES_MAX), { text: rest, classes: "", isHit: false, link: null }];
}

function splitRun(run: Run, hits: readonly TextRange[]): readonly Piece[] {
  if (run.text.length !== run.size) {
    const isHit = hits.some(([from, to]) => from <= run.at && run.at < to);
    return [{ text: run.text, classes: run.classes, isHit, link: null }];
  }
  const links = run.text.includes("://") ? findLinks(run.text) : [];
  const cuts = new Set([0, run.size]);
  for (const [from, to] of links) cuts.add(from).add(to);
  for (const [from, to] of hits) {
    if (from < run.at + run.size && to > run.at) cuts.add(Math.max(0, from - run.at)).add(Math.min(run.size, to - run.at));
  }
  const ends = [...cuts].sort((a, b) => a - b);
  return ends.slice(1).map((end, index) => pieceOf(run, ends[index] ?? 0, end, hits, links));
}

function pieceOf(run: Run, from: number, to: number, hits: readonly TextRange[], links: readonly TextRange[]): Piece {
  const link = links.find(([start, end]) => start <= from && to <= end);
  return {
    text: run.text.slice(from, to),
    classes: run.classes,
    isHit: hits.some(([start, end]) => start <= run.at + from && run.at + to <= end),
    link: link ? run.text.slice(...link) : null,
  };
}

function findLinks(text: string): readonly TextRange[] {
  const ranges: TextRange[] = [];
  for (const match of text.matchAll(ADDRESS)) {
    const address = match[0].replace(/[.,;:!?)\]]+$/, "");
    if (isWebAddress(address)) ranges.push([match.index, match.index + address.length]);
  }
  return ranges;
}

function isWebAddress(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && (url.protocol === "http:" || url.protocol === "https:") && url.username === "";
}

/** Return where a literal stands in a text, at most 100 times. */
export function findLiteral(text: string, literal: string, matchesCase: boolean): readonly TextRange[] {
  if (literal === "") return [];
  const source = matchesCase ? text : text.toLowerCase();
  const wanted = matchesCase ? literal : literal.toLowerCase();
  if (source.length !== text.length) return [];
  const ranges: TextRange[] = [];
  for (let at = source.indexOf(wanted); at >= 0 && ranges.length < 100; at = source.indexOf(wanted, at + wanted.length)) {
    ranges.push([at, at + wanted.length]);
  }
  return ranges;
}

/** Cut a text at a length, never within a character. */
export function cutText(text: string, length: number): string {
  if (text.length <= length) return text;
  const code = text.charCodeAt(length - 1);
  return text.slice(0, code >= 0xd800 && code <= 0xdbff ? length - 1 : length);
}
