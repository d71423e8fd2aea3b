/** An ECharts chart as a component: it follows the size of its place. */

import { useEffect, useRef } from "preact/hooks";

import { isDark } from "../../ui/theme";
import { init, type ECharts } from "./echarts";
import { readColours, type ChartColours } from "../../ui/plot";

export type ChartOption = Parameters<ECharts["setOption"]>[0];

interface ChartProps {
  /** The chart's option; called again when `version` or the theme changes. */
  option: (colours: ChartColours, dark: boolean) => ChartOption;
  version: string;
  height: number;
  label: string;
  /** The least width in pixels: a narrower place scrolls. */
  widthMin?: number;
  /** Called with each new chart, after its option was set. */
  onReady?: (chart: ECharts) => void;
}

export function Chart({ option, version, height, label, widthMin = 0, onReady }: ChartProps) {
  const parent = useRef<HTMLDivElement>(null);
  const dark = isDark.value;
  useEffect(() => {
    const element = parent.current;
    if (!element) return;
    const chart = init(element, null, { renderer: "canvas" });
    chart.setOption(option(readColours(), dark));
    onReady?.(chart);
    const sizes = new ResizeObserver(() => chart.resize());
    sizes.observe(element);
    return () => (sizes.disconnect(), chart.dispose());
  }, [version, dark]);
  return (
    <div class="chart-place">
      <div class="chart" role="img" aria-label={label} ref={parent} style={{ height: `${height}px`, minWidth: `${widthMin}px` }} />
    </div>
  );
}
