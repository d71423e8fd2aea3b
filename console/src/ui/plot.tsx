/** A uPlot chart as a component: it takes the width of its place and the colours of the theme. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

import { isDark } from "./theme";

export interface ChartColours {
  text: string;
  line: string;
  accent: string;
  good: string;
  warning: string;
  error: string;
  faint: string;
  ground: string;
  /** The colours of the lines of one chart, in their order. */
  tones: readonly string[];
}

/** The number of colours `--tone-0` and so on in tokens.css. */
const TONES = 8;

let last: { isDark: boolean; colours: ChartColours } | null = null;

/** Return the colours of the present theme for a canvas, which knows no variables. */
export function readColours(): ChartColours {
  const dark = isDark.peek();
  if (last?.isDark !== dark) last = { isDark: dark, colours: computeColours() };
  return last.colours;
}

function computeColours(): ChartColours {
  const probe = document.body.appendChild(document.createElement("span"));
  const read = (name: string): string => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = {
    text: read("--text"), line: read("--line"), accent: read("--accent"), good: read("--good"),
    warning: read("--warning"), error: read("--error"), faint: read("--text-2"), ground: read("--ground"),
    tones: Array.from({ length: TONES }, (_, index) => read(`--tone-${index}`)),
  };
  probe.remove();
  return colours;
}

/** Distances of marks on an axis of whole numbers. */
export const WHOLE_STEPS: number[] = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].flatMap((unit) => [unit, 2 * unit, 5 * unit]);

export function axisStyle(colours: ChartColours, label: string, extra: uPlot.Axis = {}): uPlot.Axis {
  return { label, stroke: colours.text, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line }, labelSize: 20, font: "12px system-ui", labelFont: "12px system-ui", ...extra };
}

interface PlotProps {
  /** Called again when the theme or `version` changes. */
  options: (colours: ChartColours) => Omit<uPlot.Options, "width" | "height">;
  data: uPlot.AlignedData;
  height: number;
  /** The chart in words. */
  label: string;
  /** A new chart is made when it changes; otherwise only the data are replaced. */
  version: string;
}

export function Plot({ options, data, height, label, version }: PlotProps) {
  const parent = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = isDark.value;
  useEffect(() => {
    const element = parent.current;
    if (!element) return;
    const made = new uPlot({ ...options(readColours()), width: Math.max(200, element.clientWidth), height }, data, element);
    plot.current = made;
    const sizes = new ResizeObserver(() => made.setSize({ width: Math.max(200, element.clientWidth), height }));
    sizes.observe(element);
    return () => (sizes.disconnect(), made.destroy(), (plot.current = null));
  }, [version, dark, height]);
  useEffect(() => plot.current?.setData(data), [data]);
  return <div role="img" aria-label={label} ref={parent} />;
}
