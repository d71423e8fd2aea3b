/** The value of each trial, and the best so far. */

import { useSignal, type Signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import uPlot from "uplot";

import { formatNumber, formatPlural } from "../../core/format";
import { bestSoFar, describeWhy, isBeyondLimit } from "../../core/study";
import type { StudyMetric, TrialSummary } from "../../net/types";
import { Figure } from "../../ui/figure";
import { axisStyle, Plot, WHOLE_STEPS, type ChartColours } from "../../ui/plot";
import { chooseTrial, type StudyView } from "./view";

type Column = (number | null)[];

interface HistoryData {
  numbers: number[];
  /** Final values of trials that ended by themselves, of those stopped early, and of those beyond a limit. */
  ended: Column;
  early: Column;
  beyond: Column;
  best: Column;
}

function historyOf(view: StudyView): HistoryData {
  const { rated, metric } = view;
  const select = (isIn: (trial: TrialSummary) => boolean): Column => rated.map(({ trial, value }) => (isIn(trial) ? value : null));
  return {
    numbers: rated.map(({ trial }) => trial.number),
    ended: select((trial) => !trial.stoppedEarly && !isBeyondLimit(trial)),
    early: select((trial) => trial.stoppedEarly && !isBeyondLimit(trial)),
    beyond: select(isBeyondLimit),
    best: isLimit(metric) ? rated.map(() => null) : bestSoFar(rated, metric),
  };
}

const isLimit = ({ threshold }: StudyMetric): boolean => typeof threshold === "number";

/** Filled points are trials that ended by themselves, hollow ones were stopped early, crosses are beyond a limit. */
function optionsOf(view: StudyView, pointed: Signal<number | null>) {
  return (colours: ChartColours): Omit<uPlot.Options, "width" | "height"> => ({
    scales: { x: { time: false }, y: view.isLog ? { distr: 3 } : {} },
    axes: [axisStyle(colours, "trial", { incrs: WHOLE_STEPS }), axisStyle(colours, view.metric.id, { size: 64 })],
    series: [
      { label: "trial" },
      { label: "ended", paths: () => null, points: { show: true, size: 6, fill: colours.accent, stroke: colours.accent } },
      { label: "stopped early", paths: () => null, points: { show: true, size: 7, fill: "transparent", stroke: colours.warning } },
      { label: "beyond a limit", paths: () => null, points: { show: drawCrosses, size: 7, stroke: colours.warning } },
      { label: "best so far", stroke: colours.good, width: 2, paths: uPlot.paths.stepped?.({ align: 1 }), spanGaps: true, points: { show: false } },
    ],
    legend: { show: false },
    cursor: { points: { size: 9 } },
    hooks: { draw: [(plot) => drawThreshold(plot, view.metric, colours)], ready: [chooseOnClick], setCursor: [(plot) => (pointed.value = plot.cursor.idx ?? null)] },
  });
}

const ARM = 4;

/** Draw a cross at each point of a series; return false, so that uPlot draws no points. */
function drawCrosses(plot: uPlot, series: number): boolean {
  const { ctx } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = String((plot.series[series]?.points?.stroke as () => string)());
  ctx.lineWidth = 1.5 * ratio;
  ctx.beginPath();
  for (const [index, value] of (plot.data[series] ?? []).entries()) {
    if (typeof value !== "number") continue;
    const [x, y] = [plot.valToPos(plot.data[0][index] ?? 0, "x", true), plot.valToPos(value, "y", true)];
    ctx.moveTo(x - ARM * ratio, y - ARM * ratio);
    ctx.lineTo(x + ARM * ratio, y + ARM * ratio);
    ctx.moveTo(x - ARM * ratio, y + ARM * ratio);
    ctx.lineTo(x + ARM * ratio, y - ARM * ratio);
  }
  ctx.stroke();
  ctx.restore();
  return false;
}

/** Draw the limit of a metric that has one. */
function drawThreshold(plot: uPlot, { threshold }: StudyMetric, colours: ChartColours): void {
  if (typeof threshold !== "number") return;
  const { ctx, bbox } = plot;
  const y = plot.valToPos(threshold, "y", true);
  if (y < bbox.top || y > bbox.top + bbox.height) return;
  ctx.save();
  ctx.strokeStyle = colours.warning;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

function chooseOnClick(plot: uPlot): void {
  plot.over.addEventListener("click", () => {
    const index = plot.cursor.idx;
    const number = typeof index === "number" ? plot.data[0][index] : undefined;
    if (typeof number === "number") chooseTrial(number);
  });
}

export function History({ view }: { view: StudyView }) {
  const pointed = useSignal<number | null>(null);
  const data = useMemo(() => historyOf(view), [view.rated, view.metric.id]);
  const sentence = describeHistory(view, data);
  const table = {
    heads: ["trial", view.metric.id, "best so far", "remarks"],
    rows: () => view.rated.map(({ trial, value }, index) => [String(trial.number), String(value), String(data.best[index] ?? ""), describeWhy(trial)]),
  };
  return (
    <Figure title="History" sentence={sentence} table={table}>
      {view.rated.length > 0 && (
        <Plot options={optionsOf(view, pointed)} data={[data.numbers, data.ended, data.early, data.beyond, data.best]} height={260} label={sentence} version={`${view.metric.id} ${view.isLog}`} />
      )}
      {view.rated.length > 0 && <Legend view={view} index={pointed.value} />}
    </Figure>
  );
}

function Legend({ view, index }: { view: StudyView; index: number | null }) {
  const one = index === null ? undefined : view.rated[index];
  return (
    <p class="hint">
      <span class="key-ended" aria-hidden="true">●</span> ended by itself <span class="key-early" aria-hidden="true">○</span> stopped early{" "}
      {view.study.safety && <><span class="key-early" aria-hidden="true">✕</span> beyond a limit{" "}</>}
      {!isLimit(view.metric) && <><span class="key-best" aria-hidden="true">━</span> best so far</>}
      {isLimit(view.metric) && <><span class="key-early" aria-hidden="true">╌</span> limit</>}
      {one && <span> · trial {one.trial.number}: {formatNumber(one.value, 6)}</span>}
    </p>
  );
}

function describeHistory({ rated, metric }: StudyView, data: HistoryData): string {
  if (rated.length === 0) return `No trial has succeeded with a value of ${metric.id} yet.`;
  const goal = metric.goal === "MAXIMIZE" ? "larger is better" : "smaller is better";
  const last = data.best.at(-1);
  const index = data.best.indexOf(last ?? null);
  const early = rated.filter(({ trial }) => trial.stoppedEarly).length;
  const beyond = data.beyond.filter((value) => value !== null).length;
  const crossed = beyond ? ` ${formatPlural(beyond, "trial")} beyond a limit ${beyond === 1 ? "is" : "are"} crossed.` : "";
  if (isLimit(metric)) return `${metric.id} is a limit: it must be ${metric.goal === "MAXIMIZE" ? "at least" : "at most"} ${formatNumber(metric.threshold ?? NaN, 6)}.${crossed}`;
  const best = typeof last === "number" ? `The best ${metric.id}, ${formatNumber(last, 6)}, came from trial ${data.numbers[index] ?? ""}` : "No trial meets the limits";
  return `${best}; ${goal}. ${formatPlural(rated.length, "trial")} with a value${early ? `, ${early} of them stopped early (hollow)` : ""}.${crossed}`;
}
