/** Charts of scalars with their axis, smoothing and filter, which are in the address. */

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";

import type { Axis } from "../core/curves";
import { formatNumber, formatPlural } from "../core/format";
import { showHidden } from "../core/hidden";
import { route, setQuery } from "../core/router";
import { scalarCharts, type NamedScalars, type ScalarView } from "../core/scalars";
import { LineFigure } from "./line_figure";
import { sentence } from "./notice";
import { Select } from "./select";

const AXES: readonly (readonly [Axis, string])[] = [["step", "by step"], ["since", "by time since the start"], ["time", "by time of day"]];
const WEIGHT = 0.6;
const WEIGHT_MAX = 0.99;
/** Series with fewer points are not smoothed before a user wants it. */
const SMOOTHED_MIN = 100;

/** Return the view that the address asks for, or that fits the longest series. */
function readView(query: URLSearchParams, jobs: readonly NamedScalars[]): ScalarView {
  const isLong = jobs.some(({ series }) => series.some(({ points }) => points.length >= SMOOTHED_MIN));
  const weight = Number(query.get("smooth") ?? (isLong ? WEIGHT : 0));
  return {
    axis: AXES.find(([axis]) => axis === query.get("axis"))?.[0] ?? "step",
    weight: weight >= 0 && weight <= WEIGHT_MAX ? weight : 0,
    text: query.get("name") ?? "",
  };
}

export interface ScalarChartsProps {
  jobs: readonly NamedScalars[];
  /** Sentences about values that are not shown. */
  leftOut: readonly string[];
  /** Shown instead of charts if there is no value at all. */
  none: ComponentChildren;
}

export default function ScalarCharts({ jobs, leftOut, none }: ScalarChartsProps) {
  const { axis, weight, text } = readView(route.value.query, jobs);
  const isLog = route.value.query.get("log") === "1";
  const charts = useMemo(() => scalarCharts(jobs, { axis, weight, text }), [jobs, axis, weight, text]);
  const hasSeries = jobs.some(({ series }) => series.length > 0);
  return (
    <>
      {hasSeries && (
        <div class="tools controls">
          <Select label="Horizontal axis" value={axis} options={AXES} onChoose={(value) => setQuery({ axis: value === "step" ? null : value })} />
          <label class="check" title="The mean of the values before, as in TensorBoard; the line of the values stays behind it">
            smoothing
            <input type="range" min="0" max={WEIGHT_MAX} step="0.01" value={weight} onInput={(event) => setQuery({ smooth: event.currentTarget.value })} />
            <span class="num smooth-weight">{weight.toFixed(2)}</span>
          </label>
          <label class="check"><input type="checkbox" checked={isLog} onChange={(event) => setQuery({ log: event.currentTarget.checked ? "1" : null })} /> log axis</label>
          <input type="search" placeholder="part of a name" aria-label="Part of a value's name" value={text} onInput={(event) => setQuery({ name: event.currentTarget.value })} />
          <span class="hint" role="status">{formatPlural(charts.length, "chart")}</span>
        </div>
      )}
      {!hasSeries && none}
      {leftOut.map((line) => <p key={line} class="hint">{sentence(showHidden(line))}</p>)}
      {hasSeries && charts.length === 0 && <p>{text ? "No value's name has this text." : "No value has a point on this axis."}</p>}
      <div class="figures small">
        {charts.map((chart) => (
          <LineFigure key={chart.title} title={chart.title} sentence={chart.sentence} lines={chart.lines} marks={chart.marks} axis={axis}
            format={(value) => formatNumber(Number(value.toPrecision(5)), 5)} isLog={isLog} syncKey={`scalars ${axis}`} />
        ))}
      </div>
    </>
  );
}
