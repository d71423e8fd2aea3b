/** How the Pareto front grew: with two objectives its hypervolume, with more its size. */

import { useMemo } from "preact/hooks";
import uPlot from "uplot";

import { formatPlural } from "../../core/format";
import type { FrontGrowth } from "../../net/types";
import { Figure } from "../../ui/figure";
import { axisStyle, Plot, WHOLE_STEPS, type ChartColours } from "../../ui/plot";
import type { StudyView } from "./view";

export function FrontHistory({ view }: { view: StudyView }) {
  const steps = view.study.frontHistory ?? [];
  const hasVolume = steps.some(({ volume }) => typeof volume === "number");
  const last = view.trials.at(-1)?.number ?? 0;
  const data = useMemo(() => columnsOf(steps, hasVolume, last), [steps, last]);
  const sentence = describe(view, steps, hasVolume);
  const table = { heads: ["trial", "trials in the front", "hypervolume"], rows: () => steps.map(({ trial, size, volume }) => [String(trial), String(size), String(volume ?? "")]) };
  const name = hasVolume ? "hypervolume" : "trials in the front";
  const options = (colours: ChartColours): Omit<uPlot.Options, "width" | "height"> => ({
    scales: { x: { time: false }, y: { range: (_plot, _low, high) => [0, hasVolume ? 1 : Math.max(1, high)] } },
    axes: [axisStyle(colours, "trial", { incrs: WHOLE_STEPS }), axisStyle(colours, name, { size: 64, ...(hasVolume ? {} : { incrs: WHOLE_STEPS }) })],
    series: [{ label: "trial" }, { label: name, stroke: colours.good, width: 2, paths: uPlot.paths.stepped?.({ align: 1 }), points: { show: false } }],
    legend: { show: false },
    cursor: { show: false },
  });
  return (
    <Figure title="Growth of the front" sentence={sentence} table={steps.length > 0 ? table : undefined}>
      {steps.length > 0 && <Plot options={options} data={data} height={300} label={sentence} version={name} />}
    </Figure>
  );
}

/** Return the steps as columns; the last value holds until the last trial. */
function columnsOf(steps: readonly FrontGrowth[], hasVolume: boolean, last: number): uPlot.AlignedData {
  const numbers = steps.map(({ trial }) => trial);
  const values = steps.map(({ size, volume }) => (hasVolume ? volume ?? 0 : size));
  const end = steps.at(-1);
  return end && last > end.trial ? [[...numbers, last], [...values, values.at(-1) ?? 0]] : [numbers, values];
}

function describe(view: StudyView, steps: readonly FrontGrowth[], hasVolume: boolean): string {
  const end = steps.at(-1);
  if (!end) return view.study.frontSize ? "The growth of the front of so many trials is not computed." : "No trial is in the front yet.";
  const entered = `${formatPlural(steps.length, "trial")} entered the front so far, the last one was trial ${end.trial}.`;
  if (!hasVolume) return `${entered} With more than two objectives this shows its size.`;
  return `${entered} Its hypervolume is ${((end.volume ?? 0) * 100).toFixed(1)} %: the share of the rectangle between the worst and the best values that the front beats.`;
}
