/** The value of each trial, and the best so far. */

import { useSignal, type Signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import uPlot from "uplot";

import { formatNumber, formatPlural } from "../../core/format";
import { bestSoFar, describeWhy } from "../../core/study";
import { Figure } from "../../ui/figure";
import { axisStyle, Plot, WHOLE_STEPS, type ChartColours } from "../../ui/plot";
import { chooseTrial, type StudyView } from "./view";

type Column = (number | null)[];

interface HistoryData {
  numbers: number[];
  /** Final values of trials that ended by themselves, and of those stopped early. */
  ended: Column;
  early: Column;
  best: Column;
}

function historyOf(view: StudyView): HistoryData {
  const { rated, metric, study } = view;
  return {
    numbers: rated.map(({ trial }) => trial.number),
    ended: rated.map(({ trial, value }) => (trial.stoppedEarly ? null : value)),
    early: rated.map(({ trial, value }) => (trial.stoppedEarly ? value : null)),
    best: bestSoFar(rated, metric, study.metrics),
  };
}

/** Filled points are trials that ended by themselves, hollow ones were stopped early. */
function optionsOf(view: StudyView, pointed: Signal<number | null>) {
  return (colours: ChartColours): Omit<uPlot.Options, "width" | "height"> => ({
    scales: { x: { time: false }, y: view.isLog ? { distr: 3 } : {} },
    axes: [axisStyle(colours, "trial", { incrs: WHOLE_STEPS }), axisStyle(colours, view.metric.id, { size: 64 })],
    series: [
      { label: "trial" },
      { label: "ended", paths: () => null, points: { show: true, size: 6, fill: colours.accent, stroke: colours.accent } },
      { label: "stopped early", paths: () => null, points: { show: true, size: 7, fill: "transparent", stroke: colours.warning } },
      { label: "best so far", stroke: colours.good, width: 2, paths: uPlot.paths.stepped?.({ align: 1 }), spanGaps: true, points: { show: false } },
    ],
    legend: { show: false },
    cursor: { points: { size: 9 } },
    hooks: { ready: [chooseOnClick], setCursor: [(plot) => (pointed.value = plot.cursor.idx ?? null)] },
  });
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
        <Plot options={optionsOf(view, pointed)} data={[data.numbers, data.ended, data.early, data.best]} height={260} label={sentence} version={`${view.metric.id} ${view.isLog}`} />
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
      <span class="key-best" aria-hidden="true">━</span> best so far
      {one && <span> · trial {one.trial.number}: {formatNumber(one.value, 6)}</span>}
    </p>
  );
}

function describeHistory({ rated, metric }: StudyView, data: HistoryData): string {
  if (rated.length === 0) return `No trial has succeeded with a value of ${metric.id} yet.`;
  const goal = metric.goal === "MAXIMIZE" ? "larger is better" : "smaller is better";
  const last = data.best.at(-1);
  const index = data.best.indexOf(last ?? null);
  const early = data.early.filter((value) => value !== null).length;
  const best = typeof last === "number" ? `The best ${metric.id}, ${formatNumber(last, 6)}, came from trial ${data.numbers[index] ?? ""}` : "No trial meets the limits";
  return `${best}; ${goal}. ${formatPlural(rated.length, "trial")} with a value${early ? `, ${early} of them stopped early (hollow)` : ""}.`;
}
