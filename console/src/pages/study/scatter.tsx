/** Two parameters, or a parameter and the metric: a point for each trial, coloured by the metric. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { formatNumber, formatPlural } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { rankShares, scaleColour } from "../../core/scale_colours";
import { isBetter, isBeyondLimit, mirrorOn, valueOn, type Rated, type StudyAxis } from "../../core/study";
import { Select } from "../../ui/select";
import { Chart, type ChartOption } from "./chart";
import type { ECharts } from "./echarts";
import { Figure } from "../../ui/figure";
import type { ChartColours } from "../../ui/plot";
import { chooseTrial, type StudyView } from "./view";

const POINTS_MAX = 10000;

const CROSS = "path://M-1,-1L1,1M-1,1L1,-1";

interface Point {
  rated: Rated;
  x: number | string;
  y: number | string;
}

/** Return where a chart draws a point. */
function drawnAt({ x, y }: Pick<Point, "x" | "y">, across: StudyAxis, up: StudyAxis): (number | string)[] {
  const draw = (axis: StudyAxis, value: number | string) => (typeof value === "number" ? mirrorOn(axis, value) : value);
  return [draw(across, x), draw(up, y)];
}

function pointsOf(view: StudyView, across: StudyAxis, up: StudyAxis): Point[] {
  const points: Point[] = [];
  for (const rated of view.best.slice(0, POINTS_MAX)) {
    const [x, y] = [valueOn(across, rated.trial), valueOn(up, rated.trial)];
    if (x !== null && y !== null) points.push({ rated, x, y });
  }
  return points;
}

export default function Scatter({ view }: { view: StudyView }) {
  const { axes } = view;
  const chosen = useSignal<{ x: string; y: string }>({ x: "", y: "" });
  const metricAxis = axes.at(-1);
  const across = axes.find((axis) => axis.id === chosen.value.x) ?? axes[0];
  const up = axes.find((axis) => axis.id === chosen.value.y) ?? metricAxis;
  const points = useMemo(() => (across && up ? pointsOf(view, across, up) : []), [view.best, across, up]);
  const chart = useRef<ECharts | null>(null);
  const marked = points.find(({ rated }) => rated.trial.number === view.chosen);
  const mark = (): void => {
    const data = marked && across && up ? [drawnAt(marked, across, up)] : [];
    chart.current?.setOption({ series: [{ id: "chosen", data }] } as ChartOption);
  };
  useEffect(mark, [marked]);
  const ready = (made: ECharts): void => {
    chart.current = made;
    chooseOnClick(points)(made);
    mark();
  };
  if (!across || !up) return null;
  const sentence = points.length === 0 ? "No finished trial has both values." : `${up.id} over ${across.id} of ${formatPlural(points.length, "trial")}; the better its ${view.metric.id}, the stronger its colour.${points.some(({ rated }) => isBeyondLimit(rated.trial)) ? " Crossed ones are beyond a limit." : ""}`;
  const options = axes.map(({ id }) => [id, showHidden(id)] as const);
  const tools = (
    <>
      <Select label="Horizontal axis" options={options} value={across.id} onChoose={(x) => (chosen.value = { x, y: up.id })} />
      <Select label="Vertical axis" options={options} value={up.id} onChoose={(y) => (chosen.value = { x: across.id, y })} />
    </>
  );
  const table = { heads: ["trial", across.id, up.id, view.metric.id], rows: () => points.map(({ rated, x, y }) => [String(rated.trial.number), String(x), String(y), String(rated.value)]) };
  return (
    <Figure title="Scatter" sentence={sentence} tools={tools} table={table}>
      {points.length > 0 && (
        <Chart option={(colours, dark) => optionOf(points, across, up, view, colours, dark)} height={280} label={sentence} onReady={ready}
          version={`${across.id} ${up.id} ${view.metric.id} ${view.isLog} ${view.percent} ${view.rated.length}`} />
      )}
    </Figure>
  );
}

function chooseOnClick(points: readonly Point[]) {
  return (chart: ECharts): void => {
    chart.on("click", (event) => {
      const point = points[event.dataIndex];
      if (point) chooseTrial(point.rated.trial.number);
    });
  };
}

function optionOf(points: readonly Point[], across: StudyAxis, up: StudyAxis, view: StudyView, colours: ChartColours, dark: boolean): ChartOption {
  const shares = rankShares(points.map(({ rated }) => rated.value), (left, right) => isBetter(view.metric, left, right));
  const data = points.map(({ rated, x, y }, index) => {
    const colour = scaleColour(shares[index] ?? 0, dark);
    const isEarly = rated.trial.stoppedEarly;
    if (isBeyondLimit(rated.trial)) return { value: drawnAt({ x, y }, across, up), symbol: CROSS, symbolSize: 7, itemStyle: { color: "transparent", borderColor: colour, borderWidth: 1.5 } };
    return { value: drawnAt({ x, y }, across, up), symbolSize: 7, itemStyle: { color: isEarly ? colours.ground : colour, borderColor: colour, borderWidth: isEarly ? 1.5 : 0, opacity: points.length > 2000 ? 0.4 : 0.8 } };
  });
  return {
    animation: false,
    grid: { left: 64, right: 20, top: 16, bottom: 44 },
    xAxis: { ...axisOption(across, colours), name: showHidden(across.id), nameTruncate: { maxWidth: 300 }, nameLocation: "middle", nameGap: 28 },
    yAxis: { ...axisOption(up, colours) },
    tooltip: { trigger: "item", renderMode: "richText", formatter: (item: { dataIndex: number }) => describePoint(points[item.dataIndex], across, up, view) },
    series: [
      { id: "trials", type: "scatter", data, progressive: 0 },
      { id: "chosen", type: "scatter", data: [], symbolSize: 16, silent: true, itemStyle: { color: "transparent", borderColor: colours.text, borderWidth: 2.5 } },
    ],
  } as ChartOption;
}

function axisOption(axis: StudyAxis, colours: ChartColours): object {
  const style = { axisLabel: { color: colours.text, fontSize: 11, hideOverlap: true }, axisLine: { lineStyle: { color: colours.faint } }, splitLine: { lineStyle: { color: colours.line } }, nameTextStyle: { color: colours.text } };
  if (axis.kind === "category") return { type: "category", data: axis.words, ...style, axisLabel: { ...style.axisLabel, width: 90, overflow: "truncate", formatter: showHidden } };
  return { type: axis.kind, inverse: axis.mirror !== undefined, scale: true, ...style, axisLabel: { ...style.axisLabel, formatter: (value: number) => formatNumber(mirrorOn(axis, value), 3) } };
}

function describePoint(point: Point | undefined, across: StudyAxis, up: StudyAxis, view: StudyView): string {
  if (!point) return "";
  const { rated, x, y } = point;
  const lines = [`trial ${rated.trial.number}`, `${across.id} ${x}`, `${up.id} ${y}`];
  if (up.id !== view.metric.id) lines.push(`${view.metric.id} ${formatNumber(rated.value, 6)}`);
  return lines.map(showHidden).join("\n").replaceAll(/[{}]/g, "");
}
