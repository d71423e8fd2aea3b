/** Parallel coordinates: a line for each trial; dragging along an axis keeps the lines that cross the range. */

import { useEffect, useMemo, useRef } from "preact/hooks";

import { formatCount, formatNumber, formatPlural } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { rankShares, scaleColour } from "../../core/scale_colours";
import { drawnOn, isBetter, isBeyondLimit, isInRanges, mirrorOn, mirrorRange, valueOn, type Ranges, type Rated, type StudyAxis } from "../../core/study";
import { Chart, type ChartOption } from "./chart";
import type { ECharts } from "./echarts";
import { Figure } from "../../ui/figure";
import type { ChartColours } from "../../ui/plot";
import { RangeFields } from "./ranges";
import type { StudyView } from "./view";

/** More lines than this are a surface, and slow: the best ones are drawn. */
const LINES_MAX = 1000;

interface ParallelProps {
  view: StudyView;
  ranges: Ranges;
  onRanges: (ranges: Ranges) => void;
}

export default function Parallel({ view, ranges, onRanges }: ParallelProps) {
  const { axes } = view;
  const lines = useMemo(() => view.best.slice(0, LINES_MAX), [view.best]);
  const inside = lines.filter(({ trial }) => isInRanges(trial, axes, ranges)).length;
  const chart = useRef<ECharts | null>(null);
  const chosen = lines.find(({ trial }) => trial.number === view.chosen);
  const latest = useRef({ ranges, onRanges, axes, chosen });
  latest.current = { ranges, onRanges, axes, chosen };
  const version = `${view.metric.id} ${view.isLog} ${view.percent} ${view.rated.length} ${view.isFront ? view.study.leaders.join() : ""}`;
  const ready = (made: ECharts): void => {
    chart.current = made;
    showRanges(made, latest.current.axes, latest.current.ranges);
    made.setOption(chosenOption(latest.current.axes, latest.current.chosen));
    made.on("axisareaselected", (event) => {
      const changed = rangesOf(latest.current.axes, latest.current.ranges, event as AreaEvent);
      latest.current.onRanges(changed);
    });
  };
  useEffect(() => chart.current?.setOption(chosenOption(axes, chosen)), [chosen]);
  const set = (next: Ranges): void => {
    onRanges(next);
    if (chart.current) showRanges(chart.current, axes, next);
  };
  const sentence = describe(view, lines, inside, ranges);
  return (
    <Figure title="Parallel coordinates" sentence={sentence} table={tableOf(axes, lines, ranges)} isWide>
      {lines.length > 0 && <Chart option={(colours, dark) => optionOf(axes, lines, view, colours, dark)} version={version} height={340} widthMin={axes.length * 95 + 80} label={sentence} onReady={ready} />}
      {lines.length > 0 && <RangeFields axes={axes} ranges={ranges} onRanges={set} />}
    </Figure>
  );
}

function describe(view: StudyView, lines: readonly Rated[], inside: number, ranges: Ranges): string {
  if (lines.length === 0) return `No trial has succeeded with a value of ${view.metric.id} yet.`;
  const cut = lines.length < view.best.length ? `, the best ${formatCount(lines.length)} of ${formatCount(view.best.length)}` : "";
  const isPartial = view.study.parameters.some((parameter) => parameter.parent);
  const gaps = isPartial ? " A line passes over the axis of a parameter that its trial does not have." : "";
  const front = view.isFront ? " Those of the Pareto front are thick." : "";
  const dashed = lines.some(({ trial }) => isBeyondLimit(trial)) ? " Dashed ones are beyond a limit." : "";
  const brushed = Object.keys(ranges).length > 0 ? ` ${formatCount(inside)} of them are in the chosen ranges.` : " Drag along an axis to choose a range; a click on the axis removes it.";
  return `A line for each of ${formatPlural(lines.length, "trial")}${cut}; the better its ${view.metric.id}, the stronger its colour.${front}${dashed}${gaps}${brushed}`;
}

function tableOf(axes: readonly StudyAxis[], lines: readonly Rated[], ranges: Ranges) {
  return {
    heads: ["trial", ...axes.map((axis) => axis.id)],
    rows: () => lines.filter(({ trial }) => isInRanges(trial, axes, ranges))
      .map(({ trial }) => [String(trial.number), ...axes.map((axis) => String(valueOn(axis, trial) ?? ""))]),
  };
}

function optionOf(axes: readonly StudyAxis[], lines: readonly Rated[], view: StudyView, colours: ChartColours, dark: boolean): ChartOption {
  const shares = rankShares(lines.map(({ value }) => value), (left, right) => isBetter(view.metric, left, right));
  const opacity = lines.length > 500 ? 0.35 : lines.length > 100 ? 0.5 : 0.8;
  const front = new Set(view.isFront ? view.study.leaders : []);
  const data = lines.map(({ trial }, index) => ({
    value: axes.map((axis) => drawnOn(axis, trial) ?? "-"),
    isFront: front.has(trial.number),
    lineStyle: { color: scaleColour(shares[index] ?? 0, dark), ...(isBeyondLimit(trial) ? { type: "dashed" } : {}), ...(front.has(trial.number) ? { width: 3, opacity: 1, color: colours.good } : {}) },
  }));
  // the best lines are drawn last, over the others, and those of the front over all
  data.reverse().sort((left, right) => Number(left.isFront) - Number(right.isFront));
  return {
    animation: false,
    parallel: { left: 50, right: 60, top: 40, bottom: 20, parallelAxisDefault: axisDefaults(colours) },
    parallelAxis: axes.map((axis, dim) => axisOption(axis, dim, numbersOn(axis, lines))),
    series: [
      { id: "trials", type: "parallel", data, lineStyle: { opacity, width: 1 }, inactiveOpacity: 0.04, activeOpacity: Math.min(1, opacity + 0.3), progressive: 0, smooth: false },
      { id: "chosen", type: "parallel", data: [], lineStyle: { color: colours.text, width: 4, opacity: 1 }, inactiveOpacity: 1, z: 5 },
    ],
  } as ChartOption;
}

/** The chosen trial is a series of its own, so that choosing another one draws only that again. */
function chosenOption(axes: readonly StudyAxis[], chosen: Rated | undefined): ChartOption {
  const data = chosen ? [axes.map((axis) => drawnOn(axis, chosen.trial) ?? "-")] : [];
  return { series: [{ id: "chosen", data }] } as ChartOption;
}

function axisDefaults(colours: ChartColours): object {
  return {
    nameTextStyle: { color: colours.text, fontSize: 12 },
    axisLine: { lineStyle: { color: colours.faint } },
    axisTick: { lineStyle: { color: colours.faint } },
    z: 10,
    axisLabel: { color: colours.text, fontSize: 11, hideOverlap: true, textBorderColor: colours.ground, textBorderWidth: 3 },
    areaSelectStyle: { width: 26, color: colours.accent, borderColor: colours.accent, opacity: 0.3 },
  };
}

function numbersOn(axis: StudyAxis, lines: readonly Rated[]): number[] {
  return lines.map(({ trial }) => drawnOn(axis, trial)).filter((value) => typeof value === "number");
}

/** Names and words are cut by width, so that long ones do not cover their neighbours. */
function axisOption(axis: StudyAxis, dim: number, values: readonly number[]): object {
  const name = { id: idOf(dim), name: showHidden(axis.id), nameTruncate: { maxWidth: 110 }, nameLocation: "end" };
  if (axis.kind === "category") {
    return { dim, ...name, type: "category", data: axis.words, axisLabel: { width: 90, overflow: "truncate", formatter: showHidden } };
  }
  return { dim, ...name, type: axis.kind, inverse: axis.mirror !== undefined, scale: true, ...extentOf(values), axisLabel: { formatter: (value: number) => formatNumber(mirrorOn(axis, value), 3) } };
}

/** Axes end at the trials' values, so that lines use their whole length; one value needs room around it. */
function extentOf(values: readonly number[]): { min?: number; max?: number } {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low < high ? { min: low, max: high } : {};
}

interface AreaEvent {
  parallelAxisId?: string;
  intervals?: [number, number][];
}

const idOf = (index: number): string => `axis${index}`;

/** Return the ranges after a drag along one axis; an empty interval removes its range. */
function rangesOf(axes: readonly StudyAxis[], ranges: Ranges, event: AreaEvent): Ranges {
  const axis = axes.find((_, index) => idOf(index) === event.parallelAxisId);
  if (!axis) return ranges;
  const { [axis.id]: _, ...others } = ranges;
  const interval = event.intervals?.[0];
  if (!interval) return others;
  const drawn: [number, number] = [Math.min(...interval), Math.max(...interval)];
  return { ...others, [axis.id]: mirrorRange(axis, drawn) };
}

/** Mark the ranges on the chart's axes, without the events of a drag. */
function showRanges(chart: ECharts, axes: readonly StudyAxis[], ranges: Ranges): void {
  for (const [index, axis] of axes.entries()) {
    const range = ranges[axis.id];
    chart.dispatchAction({ type: "axisAreaSelect", parallelAxisId: idOf(index), intervals: range ? [mirrorRange(axis, range)] : [] }, { silent: true });
  }
}
