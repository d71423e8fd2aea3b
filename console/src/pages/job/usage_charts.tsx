/** The charts of what a job uses of its machines. */

import { useMemo } from "preact/hooks";

import { formatPlural } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { formatUnit } from "../../core/observed";
import { usageCharts } from "../../core/scalars";
import type { JobUsage } from "../../net/types";
import { LineFigure } from "../../ui/line_figure";
import { sentence } from "../../ui/notice";

/** Axes that begin at 0, by unit: idle machines draw a flat line at the bottom. */
const TOPS: Readonly<Record<string, { top: number }>> = { ratio: { top: 1 }, cores: { top: 1 }, bytes: { top: 1e6 }, "bytes/s": { top: 1e6 }, W: { top: 10 } };

export default function UsageCharts({ usage }: { usage: JobUsage }) {
  const charts = useMemo(() => usageCharts(usage), [usage]);
  return (
    <>
      {charts.length === 0 && usage.missing.length === 0 && <p>Nothing has been measured yet. The first figures come ten seconds after a replica has started.</p>}
      {charts.length > 0 && (
        <p class="hint wide">
          {formatPlural(charts.length, "chart")}. A shade goes from the least to the greatest value; where a line is broken, nothing was measured.
          {charts.some(({ title }) => title === "GPU use") && " GPU use is the share of the time in which a kernel ran, not how busy the GPU was."}
        </p>
      )}
      {usage.missing.map((line) => <p key={line} class="hint">{sentence(showHidden(line))}</p>)}
      <div class="figures small">
        {charts.map((chart) => (
          <LineFigure key={chart.title} title={chart.title} sentence={chart.sentence} lines={chart.lines} marks={chart.marks} axis="time"
            format={(value) => formatUnit(value, chart.unit)} formatMark={(value) => formatUnit(value, chart.unit === "cores" ? "" : chart.unit)} isWhole={chart.unit === ""} syncKey="usage" {...TOPS[chart.unit]} />
        ))}
      </div>
    </>
  );
}
