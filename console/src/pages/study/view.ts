/** What the charts of a study have in common: the metric, the best trials, the selection. */

import { axesOf, bestShare, rate, type Rated, type StudyAxis } from "../../core/study";
import { objectivesOf } from "../../core/front";
import { setQuery } from "../../core/router";
import type { StudyDescription, StudyMetric, TrialSummary } from "../../net/types";

export interface StudyView {
  study: StudyDescription;
  trials: readonly TrialSummary[];
  metric: StudyMetric;
  /** All trials with a final value of the metric, by number. */
  rated: readonly Rated[];
  /** The axes of the parameters and metrics; that of the chosen metric comes last. */
  axes: readonly StudyAxis[];
  /** Whether the study has several objectives, and so a Pareto front instead of a best trial. */
  isFront: boolean;
  /** The best `percent` of them, or the Pareto front, the best first. */
  best: readonly Rated[];
  /** `FRONT` for the trials of the Pareto front. */
  percent: number;
  isLog: boolean;
  /** The number of the chosen trial; null for none. */
  chosen: number | null;
}

/** The percentage that stands for the trials of the Pareto front. */
export const FRONT = 0;
export const PERCENTS: readonly number[] = [100, 50, 25, 10, 5, 1];

/** Return the view that an address's query asks for; without a metric that of the first objective. */
export function viewOf(study: StudyDescription, trials: readonly TrialSummary[], query: URLSearchParams): StudyView | null {
  const objectives = objectivesOf(study.metrics);
  const isFront = objectives.length > 1;
  const metric = study.metrics.find(({ id }) => id === query.get("metric")) ?? objectives[0] ?? study.metrics[0];
  if (!metric) return null;
  const rated = rate(trials, metric.id);
  const percent = isFront && query.get("best") === "front" ? FRONT : PERCENTS.find((value) => String(value) === query.get("best")) ?? 100;
  const leaders = new Set(study.leaders);
  const chosen = Number(query.get("trial"));
  const isLog = query.get("log") === "1" && rated.every(({ value }) => value > 0);
  return {
    study, trials, metric, rated, percent, isLog, isFront,
    axes: axesOf(study, rated, metric, isLog),
    best: percent === FRONT ? bestShare(rated.filter(({ trial }) => leaders.has(trial.number)), metric, 100) : bestShare(rated, metric, percent),
    chosen: Number.isInteger(chosen) && chosen > 0 ? chosen : null,
  };
}

/** Choose a trial: the page shows its details, and its marks in the charts. */
export function chooseTrial(number: number | null): void {
  setQuery({ trial: number === null ? null : String(number) });
}
