/** What the charts of a study have in common: the metric, the best trials, the selection. */

import { axesOf, bestShare, rate, type Rated, type StudyAxis } from "../../core/study";
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
  /** The best `percent` of them, the best first. */
  best: readonly Rated[];
  percent: number;
  isLog: boolean;
  /** The number of the chosen trial; null for none. */
  chosen: number | null;
}

export const PERCENTS: readonly number[] = [100, 50, 25, 10, 5, 1];

/** Return the view that an address's query asks for; without a metric that of the first objective. */
export function viewOf(study: StudyDescription, trials: readonly TrialSummary[], query: URLSearchParams): StudyView | null {
  const objectives = study.metrics.filter((metric) => metric.threshold === null || metric.threshold === undefined);
  const metric = study.metrics.find(({ id }) => id === query.get("metric")) ?? objectives[0] ?? study.metrics[0];
  if (!metric) return null;
  const rated = rate(trials, metric.id);
  const percent = PERCENTS.find((value) => String(value) === query.get("best")) ?? 100;
  const chosen = Number(query.get("trial"));
  const isLog = query.get("log") === "1" && rated.every(({ value }) => value > 0);
  return {
    study, trials, metric, rated, percent, isLog,
    axes: axesOf(study, rated, metric, isLog),
    best: bestShare(rated, metric, percent),
    chosen: Number.isInteger(chosen) && chosen > 0 ? chosen : null,
  };
}

/** Choose a trial: the page shows its details, and its marks in the charts. */
export function chooseTrial(number: number | null): void {
  setQuery({ trial: number === null ? null : String(number) });
}
