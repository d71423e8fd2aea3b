/** Lines over one axis: their range from least to greatest value, marks of restarts, and a legend with the values at the pointer. */

import { useSignal, type Signal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";

import { formatElapsed, formatTimeMarks, indexAt, joinLines, SECOND_STEPS, type Axis, type Line, type Mark } from "../core/curves";
import { formatTime } from "../core/format";
import { showHidden } from "../core/hidden";
import { axisStyle, Plot, WHOLE_STEPS, type ChartColours } from "./plot";

export interface LinePlotProps {
  lines: readonly Line[];
  marks?: readonly Mark[];
  axis: Axis;
  /** Writes a value, with its unit. */
  format: (value: number) => string;
  /** Writes a value beside the vertical axis; `format` by default. */
  formatMark?: (value: number) => string;
  /** The values are whole numbers. */
  isWhole?: boolean;
  isLog?: boolean;
  /** The least top of a vertical axis that begins at 0; without it the axis follows the values. */
  top?: number;
  height?: number;
  /** The chart in words. */
  label: string;
  /** Charts of one key show the same place under the pointer. */
  syncKey?: string;
}

/** More lines have no colours of their own and no ranges: the legend names the first ones. */
const COLOURED_MAX = 8;
const RANGES_MAX = 4;
/** Lines from this tone on are dashed, so that none is told by its colour alone. */
const SOLID_TONES = 4;

const dashOf = (tone: number): number[] => (tone < SOLID_TONES ? [] : [6, 3]);

export function LinePlot({ lines, marks = [], axis, format, formatMark = format, isWhole = false, isLog = false, top, height = 170, label, syncKey }: LinePlotProps) {
  const pointed = useSignal<number | null>(null);
  const joined = useMemo(() => joinLines(lines, isLog), [lines, isLog]);
  const hasRanges = new Set(lines.map(({ name }) => name)).size <= RANGES_MAX && lines.every(({ raw }) => raw === null);
  const data = useMemo(() => {
    const columns = joined.columns.flatMap(({ values, lows, highs, raw }) => (hasRanges ? [highs, lows, values] : raw ? [raw, values] : [values]));
    return [joined.xs, ...columns] as uPlot.AlignedData;
  }, [joined, hasRanges]);
  const latest = useRef(marks);
  latest.current = marks;
  const options = (colours: ChartColours): Omit<uPlot.Options, "width" | "height"> => ({
    scales: { x: { time: false }, y: isLog ? { distr: 3 } : top === undefined ? {} : { range: (_, __, highest) => [0, Math.max(top, 1.05 * (highest ?? 0))] } },
    axes: [xAxis(colours, axis), yAxis(colours, formatMark, isWhole)],
    series: [{}, ...lines.flatMap((line) => seriesOf(line, colours, hasRanges))],
    bands: hasRanges ? lines.map((line, index): uPlot.Band => ({ series: [3 * index + 1, 3 * index + 2], fill: fade(colourOf(line, colours), 0.18) })) : [],
    legend: { show: false },
    padding: [8, 22, 0, 0],
    cursor: { y: false, points: { show: false }, ...(syncKey ? { sync: { key: syncKey } } : {}) },
    hooks: {
      draw: [(plot) => drawMarks(plot, latest.current, colours)],
      setCursor: [(plot) => (pointed.value = (plot.cursor.left ?? -1) < 0 ? null : plot.posToVal(plot.cursor.left ?? 0, "x"))],
    },
  });
  const version = `${axis} ${isLog} ${hasRanges} ${lines.map(({ name, tone, raw }) => `${name}\t${tone}\t${raw !== null}`).join("\n")}`;
  return (
    <>
      <Plot options={options} data={data} height={height} label={label} version={version} />
      <Legend lines={lines} axis={axis} format={format} pointed={pointed} />
    </>
  );
}

function xAxis(colours: ChartColours, axis: Axis): uPlot.Axis {
  const style = axisStyle(colours, "", { labelSize: 0, ticks: { stroke: colours.line, size: 4 }, incrs: axis === "step" ? WHOLE_STEPS : SECOND_STEPS, ...(axis === "time" ? { size: 40, space: 60 } : { size: 26 }) });
  if (axis === "step") return style;
  return { ...style, values: (_, marks, __, ___, distance) => (axis === "time" ? formatTimeMarks(marks, distance) : marks.map(formatElapsed)) };
}

function yAxis(colours: ChartColours, format: (value: number) => string, isWhole: boolean): uPlot.Axis {
  return {
    ...axisStyle(colours, "", { labelSize: 0, ticks: { stroke: colours.line, size: 4 }, ...(isWhole ? { incrs: WHOLE_STEPS } : {}) }),
    size: (_, marks) => 16 + 7 * Math.max(3, ...(marks ?? []).map((mark) => mark.length)),
    values: (_, marks) => marks.map((mark) => (mark === null ? "" : format(mark))),
  };
}

function colourOf(line: Line, colours: ChartColours): string {
  return colours.tones[line.tone] ?? colours.faint;
}

/** Return a colour `rgb(r, g, b)` with an opacity. */
function fade(colour: string, opacity: number): string {
  return colour.replace(/^rgb\(([^)]*)\)$/, (_, parts: string) => `rgb(${parts} / ${opacity})`.replaceAll(",", ""));
}

function seriesOf(line: Line, colours: ChartColours, hasRange: boolean): uPlot.Series[] {
  const colour = colourOf(line, colours);
  const bound: uPlot.Series = { stroke: "transparent", width: 0, points: { show: false } };
  const isPoint = line.xs.length < 2;
  const main: uPlot.Series = { stroke: colour, width: 1.5, dash: dashOf(line.tone), points: { show: isPoint, size: 6, fill: colour, stroke: colour } };
  if (hasRange) return [bound, { ...bound }, main];
  return line.raw ? [{ stroke: fade(colour, 0.3), width: 1, points: { show: false } }, main] : [main];
}

function drawMarks(plot: uPlot, marks: readonly Mark[], colours: ChartColours): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colours.warning;
  ctx.font = `${11 * ratio}px system-ui`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.lineWidth = ratio;
  ctx.setLineDash([4 * ratio, 3 * ratio]);
  for (const { x, text } of marks) {
    const left = plot.valToPos(x, "x", true);
    if (!(left >= bbox.left && left <= bbox.left + bbox.width)) continue;
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(text, left + 3 * ratio, bbox.top + 11 * ratio);
  }
  ctx.restore();
}

interface LegendProps {
  lines: readonly Line[];
  axis: Axis;
  format: (value: number) => string;
  pointed: Signal<number | null>;
}

function Legend({ lines, axis, format, pointed }: LegendProps) {
  const x = pointed.value;
  const names = [...new Set(lines.map(({ name }) => name))];
  return (
    <ul class="line-legend">
      {names.slice(0, COLOURED_MAX).map((name) => <LegendRow key={name} name={name} lines={lines.filter((line) => line.name === name)} x={x} format={format} />)}
      {names.length > COLOURED_MAX && <li class="hint">and {names.length - COLOURED_MAX} more</li>}
      {x !== null && <li class="hint num">{describeX(x, axis)}</li>}
    </ul>
  );
}

function describeX(x: number, axis: Axis): string {
  if (axis === "step") return `step ${Math.round(x)}`;
  return axis === "since" ? `after ${formatElapsed(x)}` : formatTime(new Date(x * 1000).toISOString());
}

/** The values of the last of the lines that has begun at `x`. */
function LegendRow({ name, lines, x, format }: { name: string; lines: readonly Line[]; x: number | null; format: (value: number) => string }) {
  const line = lines.findLast(({ xs }) => indexAt(xs, x) >= 0) ?? lines[0];
  const index = line ? indexAt(line.xs, x) : -1;
  const [value, raw] = [line?.values[index], line?.raw?.[index]];
  const tone = line?.tone ?? 0;
  return (
    <li>
      <svg width="18" height="8" aria-hidden="true"><line x1="0" x2="18" y1="4" y2="4" class={`tone-${tone}`} stroke-width="2.5" stroke-dasharray={dashOf(tone).join(" ")} /></svg>
      {name && <span class="line-name" title={showHidden(name)}>{showHidden(name)}</span>}
      <span class="num">{typeof value === "number" ? format(value) : "–"}{typeof raw === "number" && <span class="hint"> ({format(raw)})</span>}</span>
    </li>
  );
}
