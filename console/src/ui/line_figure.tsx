/** One of many small charts: a figure with lines, and the same as a table. */

import type { Axis, Line } from "../core/curves";
import { formatElapsed } from "../core/curves";
import { formatTime } from "../core/format";
import { showHidden } from "../core/hidden";
import { Figure } from "./figure";
import { LinePlot, type LinePlotProps } from "./line_plot";
import { WhenVisible } from "./when_visible";

interface LineFigureProps extends Omit<LinePlotProps, "label" | "height"> {
  title: string;
  sentence: string;
}

const HEIGHT = 170;

export function LineFigure({ title, sentence, lines, axis, ...plot }: LineFigureProps) {
  const shown = showHidden(title);
  return (
    <Figure title={shown} sentence={sentence} table={{ heads: [AXIS_HEADS[axis], "line", "least", "value", "greatest"], rows: () => rowsOf(lines, axis) }}>
      <WhenVisible height={HEIGHT + 24}>
        {() => <LinePlot lines={lines} axis={axis} label={`${shown}: ${sentence}`} height={HEIGHT} {...plot} />}
      </WhenVisible>
    </Figure>
  );
}

const AXIS_HEADS: Readonly<Record<Axis, string>> = { step: "step", time: "time", since: "after" };

function rowsOf(lines: readonly Line[], axis: Axis): string[][] {
  return lines.flatMap((line) => line.xs.flatMap((x, index) => {
    const value = line.raw?.[index] ?? line.values[index];
    if (value === null || value === undefined) return [];
    const place = axis === "step" ? String(x) : axis === "since" ? formatElapsed(x) : formatTime(new Date(x * 1000).toISOString());
    return [[place, showHidden(line.name), String(line.lows[index] ?? ""), String(value), String(line.highs[index] ?? "")]];
  }));
}
