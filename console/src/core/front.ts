/** The Pareto front of a study with several objectives, as points and lines of a chart. Pure. */

import type { StudyMetric, TrialSummary } from "../net/types";
import { finalValue, isBeyondLimit } from "./study";

/** `front`: no other trial beats it; `beyond`: it breaks a limit; `beaten`: any other. */
export type PointKind = "front" | "beaten" | "beyond";

export interface FrontPoint {
  trial: TrialSummary;
  x: number;
  y: number;
  kind: PointKind;
}

/** Return the metrics that a study optimizes: those without a limit. */
export function objectivesOf(metrics: readonly StudyMetric[]): StudyMetric[] {
  return metrics.filter(({ threshold }) => threshold === null || threshold === undefined);
}

/** Return a point for each trial with both values; those of the front come last, over the others. */
export function frontPoints(trials: readonly TrialSummary[], leaders: ReadonlySet<number>, across: StudyMetric, up: StudyMetric): FrontPoint[] {
  const points: FrontPoint[] = [];
  for (const trial of trials) {
    const [x, y] = [finalValue(trial, across.id), finalValue(trial, up.id)];
    const kind = leaders.has(trial.number) ? "front" : isBeyondLimit(trial) ? "beyond" : "beaten";
    if (x !== null && y !== null) points.push({ trial, x, y, kind });
  }
  const order: Readonly<Record<PointKind, number>> = { beaten: 0, beyond: 1, front: 2 };
  return points.sort((left, right) => order[left.kind] - order[right.kind]);
}

const worse = (metric: StudyMetric, left: number, right: number): number => (metric.goal === "MAXIMIZE" ? Math.min(left, right) : Math.max(left, right));

/** Return the corners of the line around the values that the front beats, from the lowest x on. */
export function staircase(points: readonly FrontPoint[], across: StudyMetric, up: StudyMetric): [number, number][] {
  const front = points.filter(({ kind }) => kind === "front").sort((left, right) => left.x - right.x || left.y - right.y);
  return front.flatMap(({ x, y }, index): [number, number][] => {
    const next = front[index + 1];
    return next ? [[x, y], [worse(across, x, next.x), worse(up, y, next.y)]] : [[x, y]];
  });
}

/** A scale from values to pixels, with the values to mark. */
export interface PixelScale {
  at: (value: number) => number;
  ticks: number[];
}

const MARGIN_SHARE = 0.06;

/** Return a scale that shows all values with a margin; a logarithmic one needs values above 0. */
export function scaleOf(values: readonly number[], from: number, to: number, isLog: boolean, tickCount: number): PixelScale {
  const draw = isLog ? Math.log10 : (value: number): number => value;
  const [least, most] = values.reduce(([low, high], value) => [Math.min(low, draw(value)), Math.max(high, draw(value))], [Infinity, -Infinity]);
  const room = most > least ? (most - least) * MARGIN_SHARE : Math.abs(most) * MARGIN_SHARE || 1;
  const [low, high] = [least - room, most + room];
  const at = (value: number): number => from + ((draw(value) - low) / (high - low)) * (to - from);
  const isDecades = isLog && high - low >= 2;
  return { at, ticks: isDecades ? decades(low, high) : niceValues(isLog ? 10 ** low : low, isLog ? 10 ** high : high, tickCount) };
}

function decades(low: number, high: number): number[] {
  const first = Math.ceil(low);
  return Array.from({ length: Math.max(0, Math.floor(high) - first + 1) }, (_, index) => 10 ** (first + index));
}

/** Return at most about `count` round values between two. */
function niceValues(low: number, high: number, count: number): number[] {
  const rough = (high - low) / count;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough) ?? rough;
  const first = Math.ceil(low / step);
  const length = Math.max(0, Math.floor(high / step) - first + 1);
  return Array.from({ length }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** Return the point nearest to a place, at most `reach` pixels away; of equal ones that drawn last. */
export function nearestPoint(points: readonly FrontPoint[], x: PixelScale, y: PixelScale, place: readonly [number, number], reach: number): FrontPoint | null {
  let [best, nearest]: [number, FrontPoint | null] = [reach * reach, null];
  for (const point of points) {
    const distance = (x.at(point.x) - place[0]) ** 2 + (y.at(point.y) - place[1]) ** 2;
    if (distance <= best) [best, nearest] = [distance, point];
  }
  return nearest;
}
