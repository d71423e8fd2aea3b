/** Points of curves as lines of a chart: axes, gaps, smoothing, restarts. Pure. */

/** What stands on the horizontal axis: the step, the time of day, or the seconds since the start. */
export type Axis = "step" | "time" | "since";

/** A point of a series; the three values are equal where it stands for one measurement. */
export interface CurvePoint {
  /** Null for a series without steps. */
  step: number | null;
  /** Seconds since 1970. */
  at: number;
  low: number;
  value: number;
  high: number;
}

/** A line of a chart, by rising x; null breaks it. */
export interface Line {
  /** Lines of one name have one row in the legend and one colour. */
  name: string;
  /** The number of its colour. */
  tone: number;
  xs: readonly number[];
  values: readonly (number | null)[];
  lows: readonly (number | null)[];
  highs: readonly (number | null)[];
  /** The values before they were smoothed; null if they are not. */
  raw: readonly (number | null)[] | null;
}

/** A vertical mark, such as the start of another attempt. */
export interface Mark {
  x: number;
  text: string;
}

type Column = (number | null | undefined)[];

/** Return the points of `[step, seconds, min, mean, max]` rows; rows with anything but finite numbers are left out. */
export function readSteps(rows: readonly (readonly (number | null)[])[]): CurvePoint[] {
  return rows.flatMap(([step, ...rest]) => pointOf(typeof step === "number" ? step : null, rest));
}

/** Return the points of `[seconds, min, mean, max]` rows. */
export function readTimes(rows: readonly (readonly (number | null)[])[]): CurvePoint[] {
  return rows.flatMap((row) => pointOf(null, row));
}

function pointOf(step: number | null, [at, low, value, high]: readonly (number | null | undefined)[]): CurvePoint[] {
  const isWhole = [at, low, value, high].every((number) => typeof number === "number" && Number.isFinite(number));
  return isWhole ? [{ step, at: at as number, low: low as number, value: value as number, high: high as number }] : [];
}

/** Return the points in parts, each with rising steps: a trainer that begins again at an earlier step draws another line. */
export function splitAtStepsBack(points: readonly CurvePoint[]): CurvePoint[][] {
  const parts: CurvePoint[][] = [];
  let last = Infinity;
  for (const point of points) {
    const step = point.step ?? last;
    if (parts.length === 0 || step < last) parts.push([]);
    parts.at(-1)?.push(point);
    last = step;
  }
  return parts;
}

/** Shorter distances in seconds are no gap: samples are taken once a minute. */
const GAP_MIN_S = 150;

/** Return for each time whether nothing was measured before it: the distance is much longer than one beside it. */
export function findGaps(times: readonly number[]): boolean[] {
  const distance = (index: number): number => (index > 0 && index < times.length ? (times[index] ?? 0) - (times[index - 1] ?? 0) : Infinity);
  return times.map((_, index) => {
    const own = distance(index);
    const usual = Math.min(distance(index - 1), distance(index + 1));
    return index > 0 && own > GAP_MIN_S && usual < Infinity && own > 3 * usual;
  });
}

/**
 * Return the exponential mean of values, as TensorBoard computes it: `weight` from 0 (none) to below 1
 * is that of the mean before; the first values are not drawn to 0.
 */
export function smooth(values: readonly number[], weight: number): number[] {
  let sum = 0;
  let weights = 0;
  return values.map((value) => {
    sum = sum * weight + (1 - weight) * value;
    weights = weights * weight + (1 - weight);
    return sum / weights;
  });
}

interface LineOptions {
  name: string;
  tone: number;
  axis: Axis;
  /** Seconds since 1970 at which the axis "since" begins. */
  start: number;
  /** The weight of `smooth`; 0 for none. */
  weight?: number;
}

/** Return the lines of a series: one for each part with rising steps. Points without a step have none by step. */
export function linesOf(points: readonly CurvePoint[], options: LineOptions): Line[] {
  const { axis } = options;
  if (axis === "step") {
    return splitAtStepsBack(points.filter(({ step }) => step !== null)).map((part) => lineOf(part, part.map(({ step }) => step ?? 0), options));
  }
  const sorted = [...points].sort((left, right) => left.at - right.at);
  return sorted.length > 0 ? [lineOf(sorted, sorted.map(({ at }) => (axis === "since" ? at - options.start : at)), options)] : [];
}

function lineOf(points: readonly CurvePoint[], xs: readonly number[], { name, tone, axis, weight = 0 }: LineOptions): Line {
  const values = points.map(({ value }) => value);
  const line: Line = {
    name, tone, xs, values: weight > 0 ? smooth(values, weight) : values, raw: weight > 0 ? values : null,
    lows: points.map(({ low }) => low), highs: points.map(({ high }) => high),
  };
  return axis === "step" ? line : breakLine(line, findGaps(xs));
}

/** Return the line with a point of nulls inside each gap. */
function breakLine(line: Line, gaps: readonly boolean[]): Line {
  if (!gaps.includes(true)) return line;
  const spread = <T,>(items: readonly T[], between: (index: number) => T): T[] => items.flatMap((item, index) => (gaps[index] ? [between(index), item] : [item]));
  const nulls = (items: readonly (number | null)[]): (number | null)[] => spread(items, () => null);
  return {
    ...line, values: nulls(line.values), lows: nulls(line.lows), highs: nulls(line.highs), raw: line.raw && nulls(line.raw),
    xs: spread(line.xs, (index) => ((line.xs[index] ?? 0) + (line.xs[index - 1] ?? 0)) / 2),
  };
}

/** One x for all lines, and a column of each line; undefined where a line has no point. */
export interface JoinedLines {
  xs: number[];
  columns: { values: Column; lows: Column; highs: Column; raw: Column | null }[];
}

/** Return the lines over one horizontal axis. `isLog`: values that are not above 0 are left out. */
export function joinLines(lines: readonly Line[], isLog = false): JoinedLines {
  const xs = [...new Set(lines.flatMap(({ xs }) => xs))].sort((left, right) => left - right);
  const positions = new Map(xs.map((x, index) => [x, index]));
  const columnOf = (line: Line, items: readonly (number | null)[]): Column => {
    const column: Column = new Array<undefined>(xs.length).fill(undefined);
    line.xs.forEach((x, index) => {
      const item = items[index] ?? null;
      column[positions.get(x) ?? 0] = isLog && item !== null && item <= 0 ? null : item;
    });
    return column;
  };
  return {
    xs,
    columns: lines.map((line) => ({
      values: columnOf(line, line.values), lows: columnOf(line, line.lows), highs: columnOf(line, line.highs), raw: line.raw && columnOf(line, line.raw),
    })),
  };
}

/** Return the index of the last point at or before `x`, of `null` the last point; -1 before the first. */
export function indexAt(xs: readonly number[], x: number | null): number {
  if (x === null) return xs.length - 1;
  let [low, high] = [0, xs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((xs[middle] ?? 0) <= x) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Return the highest and the mean value of lines; null without a value. */
export function summarize(lines: readonly Line[]): { mean: number; highest: number } | null {
  let [sum, count, highest] = [0, 0, -Infinity];
  for (const { values, highs } of lines) {
    for (const value of values) if (value !== null) [sum, count] = [sum + value, count + 1];
    for (const high of highs) if (high !== null && high > highest) highest = high;
  }
  return count > 0 ? { mean: sum / count, highest } : null;
}

const DAY = 86400;

const pad = (value: number): string => String(value).padStart(2, "0");

/** Distances of marks on an axis of seconds. */
export const SECOND_STEPS: number[] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, DAY, 2 * DAY, 7 * DAY, 30 * DAY];

/** Return seconds since the start for an axis: "30 s", "5 min", "1:30 h", "2 d". */
export function formatElapsed(seconds: number): string {
  if (seconds < 3600) return seconds < 60 ? `${Math.round(seconds)} s` : `${Number((seconds / 60).toFixed(1))} min`;
  if (seconds >= DAY) return `${Number((seconds / DAY).toFixed(1))} d`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)}:${pad(minutes % 60)} h`;
}

/** Return the marks of an axis of times of day: hours and minutes, and below them the date where it changes. */
export function formatTimeMarks(times: readonly number[], distance: number): string[] {
  let before = "";
  return times.map((time) => {
    const date = new Date(time * 1000);
    const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
    const isNew = day !== before;
    before = day;
    if (distance >= DAY) return day.slice(5);
    const clock = `${pad(date.getHours())}:${pad(date.getMinutes())}${distance < 60 ? `:${pad(date.getSeconds())}` : ""}`;
    return isNew ? `${clock}\n${day.slice(5)}` : clock;
  });
}
