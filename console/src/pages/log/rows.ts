/** The lines of a log as the page holds them, and the filter that chooses them. Pure. */

import type { StampedRow } from "../../core/viewport";
import type { LogWindow } from "../../net/schemas";

/** A line as the route returns it: number or null, stamp, task, severity, text, cut bytes, trial. */
export type WireLine = LogWindow["lines"][number];

export interface LogRow extends StampedRow {
  /** The number of the line in its files, from 1; null for a sentence of the service. */
  readonly number: number | null;
  readonly task: string;
  readonly severity: string;
  readonly text: string;
  /** How many bytes of the text the server left out. */
  readonly cut: number;
}

/** What a user chose to see; "" is everything. */
export interface LogFilter {
  readonly task: string;
  readonly severity: string;
  readonly attempt: string;
  readonly trial: string;
}

export const SEVERITIES = ["DEFAULT", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] as const;

export function isFiltered(filter: LogFilter): boolean {
  return filter.task !== "" || filter.severity !== "" || filter.attempt !== "";
}

export function isGrave(severity: string): boolean {
  return severity === "ERROR" || severity === "CRITICAL";
}

/** Return the rows of an answer. */
export function readRows(lines: readonly WireLine[]): readonly LogRow[] {
  return lines.map(([number, stamp, task, severity, text, cut, trial]) => ({
    // a damaged line is one of the service with the stamp of the line before it
    key: number === null || task === "service" ? `${stamp} ${trial ?? ""} ${task} ${number ?? ""}` : stamp, number, stamp, severity, text, cut,
    task: trial ? `trial ${trial} ${task}` : task,
  }));
}

/** Return how many of the rows before an index have a number. */
export function countNumbered(rows: readonly LogRow[], to: number): number {
  let count = 0;
  for (let index = 0; index < to; index += 1) if (rows[index]?.number !== null) count += 1;
  return count;
}

/** Ways to show the time of a line. */
export const TIMES = ["local", "utc", "since", "none"] as const;
export type TimeStyle = (typeof TIMES)[number];

/** Return a stamp as RFC 3339 in UTC with nanoseconds. */
export function stampText(stamp: string): string {
  const seconds = Number(stamp.slice(0, -9) || "0");
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return stamp;
  return `${date.toISOString().slice(0, 19)}.${stamp.slice(-9).padStart(9, "0")}Z`;
}

/** Return the time of a line; `startMs` is the job's start for "since". */
export function timeText(stamp: string, style: TimeStyle, startMs: number): string {
  if (style === "none") return "";
  const ms = Number(stamp.slice(0, -6) || "0");
  if (style === "since") return sinceText(ms - startMs);
  const shift = style === "utc" ? 0 : new Date(ms).getTimezoneOffset() * 60000;
  const date = new Date(ms - shift);
  return Number.isNaN(date.getTime()) ? stamp : date.toISOString().slice(11, 23);
}

function sinceText(ms: number): string {
  const sign = ms < 0 ? "−" : "+";
  const whole = Math.abs(ms);
  const pad = (value: number): string => String(Math.floor(value)).padStart(2, "0");
  const seconds = (whole / 1000) % 60;
  const text = `${pad((whole / 60000) % 60)}:${pad(seconds)}.${String(Math.floor(whole % 1000)).padStart(3, "0")}`;
  return `${sign}${whole >= 3600000 ? `${Math.floor(whole / 3600000)}:` : ""}${text}`;
}

/** A target that a user typed: a line's number, or a time as a stamp. */
type JumpTarget = { line: number } | { stamp: string };

/** Return what "998,112", "14:02:10" or "2026-11-29T14:02" names; null for another text.
 *
 * A time of day is on the day of `dayMs`, in the zone of the browser, or in UTC.
 */
export function parseJump(text: string, dayMs: number, utc: boolean): JumpTarget | null {
  const typed = text.trim();
  if (/^#?[\d,.\s]+$/.test(typed)) return { line: Math.max(1, Number(typed.replace(/\D/g, ""))) };
  const clock = /^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?$/.exec(typed);
  const ms = clock ? clockMs(clock, dayMs, utc) : dateMs(typed, utc);
  return Number.isFinite(ms) && ms >= 0 ? { stamp: `${Math.floor(ms)}000000` } : null;
}

/** Return the milliseconds of "2026-11-29" or "2026-11-29T14:02", with or without a zone; NaN for another text. */
function dateMs(text: string, utc: boolean): number {
  const match = /^(\d{4}-\d\d-\d\d)(?:[T ]([\d:.]+))?(Z|[+-]\d\d:\d\d)?$/i.exec(text);
  return match ? Date.parse(`${match[1]}T${match[2] ?? "00:00"}${match[3] ?? (utc ? "Z" : "")}`) : NaN;
}

function clockMs(clock: RegExpExecArray, dayMs: number, utc: boolean): number {
  const date = new Date(dayMs);
  const numbers = [Number(clock[1]), Number(clock[2]), Number(clock[3] ?? "0"), Number((clock[4] ?? "0").padEnd(3, "0").slice(0, 3))] as const;
  return utc ? date.setUTCHours(...numbers) : date.setHours(...numbers);
}
