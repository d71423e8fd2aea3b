/** The learning curves of the newest trials; one stopped early ends in a cross. */

import { useSignal, type Signal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import type uPlot from "uplot";

import { formatNumber, formatPlural } from "../../core/format";
import { describeWhy } from "../../core/study";
import type { MetricCurve, StudyRung, TrialSummary } from "../../net/types";
import { Select } from "../../ui/select";
import { ErrorNotice } from "../../ui/notice";
import { useCurves, type StudyName } from "./data";
import { Figure } from "../../ui/figure";
import { axisStyle, Plot, WHOLE_STEPS, type ChartColours } from "../../ui/plot";
import { chooseTrial, type StudyView } from "./view";

interface CurvesProps {
  view: StudyView;
  name: StudyName;
  changes: number;
}

export function Curves({ view, name, changes }: CurvesProps) {
  const byTime = useSignal(false);
  const pointed = useSignal<number | null>(null);
  const answer = useCurves(name, view.metric.id, byTime.value, changes);
  const trials = useMemo(() => new Map(view.trials.map((trial) => [trial.number, trial])), [view.trials]);
  const best = useMemo(() => new Set(view.best.map(({ trial }) => trial.number)), [view.best]);
  const all = answer.value.value?.curves ?? [];
  const curves = useMemo(() => (view.percent === 100 ? all : all.filter((curve) => best.has(curve.trial))), [all, best, view.percent]);
  const rungs = view.study.rungsByTime === byTime.value ? view.study.rungs ?? [] : [];
  const early = curves.filter((curve) => trials.get(curve.trial)?.stoppedEarly).length;
  const isLoading = answer.value.value === null && answer.error.value === null;
  const sentence = curves.length === 0
    ? isLoading ? "Loading…" : "No trial has reported a value while it ran."
    : `${formatPlural(curves.length, "curve")} of the newest trials${early ? `; ${early} stopped early, each ends in ✕` : ""}.${describeRungs(rungs)}`;
  const tools = (
    <Select label="Horizontal axis" value={byTime.value ? "seconds" : "step"} options={[["step", "by step"], ["seconds", "by seconds"]]}
      onChoose={(axis) => (byTime.value = axis === "seconds")} />
  );
  return (
    <Figure title="Curves" sentence={sentence} tools={tools} table={tableOf(curves, trials)}>
      {answer.error.value && <ErrorNotice error={answer.error.value} retry={answer.reload} />}
      {curves.length > 0 && <CurvePlot curves={curves} trials={trials} view={view} byTime={byTime.value} rungs={rungs} label={sentence} pointed={pointed} />}
      {curves.length > 0 && <Pointed trial={trials.get(pointed.value ?? view.chosen ?? -1)} />}
    </Figure>
  );
}

/** Says where the rungs of successive halving are, and what a trial needs to pass each. */
function describeRungs(rungs: readonly StudyRung[]): string {
  const texts = rungs.map(({ at, trials, bar }, index) => `rung ${index + 1} at ${formatNumber(at)} (${formatPlural(trials, "trial")}${typeof bar === "number" ? `, continue from ${formatNumber(bar)}` : ""})`);
  return texts.length > 0 ? ` Dashed lines are rungs: ${texts.join(", ")}.` : "";
}

function tableOf(curves: readonly MetricCurve[], trials: ReadonlyMap<number, TrialSummary>) {
  return {
    heads: ["trial", "points", "last step or second", "last value", "evidence"],
    rows: () => curves.map((curve) => {
      const trial = trials.get(curve.trial);
      return [String(curve.trial), String(curve.at.length), String(curve.at.at(-1) ?? ""), String(curve.values.at(-1) ?? ""), trial ? trial.earlyStop?.reason ?? describeWhy(trial) : ""];
    }),
  };
}

/** Says what the pointed trial is, and for a stopped one the rule, the bar and the value. */
function Pointed({ trial }: { trial: TrialSummary | undefined }) {
  if (!trial) return <p class="hint">Point at a curve, or choose a trial in the table, to see why it ended.</p>;
  const stop = trial.earlyStop;
  return (
    <p role="status">
      Trial {trial.number}: {trial.state}
      {stop && <> – {trial.state === "PAUSED" ? "paused" : "stopped early"} at {stop.byTime ? "second" : "step"} {formatNumber(stop.at)}. {stop.reason}.</>}
      {!stop && describeWhy(trial) && <> – {describeWhy(trial)}</>}
    </p>
  );
}

interface CurvePlotProps {
  curves: readonly MetricCurve[];
  trials: ReadonlyMap<number, TrialSummary>;
  view: StudyView;
  byTime: boolean;
  /** The rungs on this axis. */
  rungs: readonly StudyRung[];
  label: string;
  pointed: Signal<number | null>;
}

/** Return the corners of all curves: uPlot scales the axes by them, and the hook below draws the lines. */
function boundsOf(curves: readonly MetricCurve[], isLog: boolean): uPlot.AlignedData {
  let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const { at, values } of curves) {
    for (const [index, value] of values.entries()) {
      if (isLog && value <= 0) continue;
      left = Math.min(left, at[index] ?? 0);
      right = Math.max(right, at[index] ?? 0);
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (left > right) return [[0, 1], [0, 1]];
  return [[left, left === right ? left + 1 : right], [low, high]];
}

function CurvePlot({ curves, trials, view, byTime, rungs, label, pointed }: CurvePlotProps) {
  const data = useMemo(() => boundsOf(curves, view.isLog), [curves, view.isLog]);
  const latest = useRef({ curves, trials, rungs });
  latest.current = { curves, trials, rungs };
  const options = (colours: ChartColours): Omit<uPlot.Options, "width" | "height"> => ({
    scales: { x: { time: false }, y: view.isLog ? { distr: 3 } : {} },
    axes: [axisStyle(colours, byTime ? "seconds" : "step", byTime ? {} : { incrs: WHOLE_STEPS }), axisStyle(colours, view.metric.id, { size: 64 })],
    series: [{}, { label: view.metric.id, paths: () => null, points: { show: false } }],
    legend: { show: false },
    cursor: { y: false },
    hooks: {
      draw: [(plot) => drawRungs(plot, latest.current.rungs, colours), (plot) => drawCurves(plot, latest.current.curves, latest.current.trials, colours, pointed.peek() ?? view.chosen)],
      setCursor: [(plot) => {
        const nearest = nearestCurve(plot, latest.current.curves);
        if (nearest !== pointed.peek()) {
          pointed.value = nearest;
          plot.redraw(false, false);
        }
      }],
      ready: [(plot) => plot.over.addEventListener("click", () => chooseTrial(pointed.peek()))],
    },
  });
  return <Plot options={options} data={data} height={260} label={label} version={`${view.metric.id} ${view.isLog} ${byTime} ${view.chosen} ${rungs.map(({ at }) => at).join()}`} />;
}

/** Draw a line with its number at each rung that the axis shows. */
function drawRungs(plot: uPlot, rungs: readonly StudyRung[], colours: ChartColours): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colours.warning;
  ctx.lineWidth = ratio;
  ctx.font = `${11 * ratio}px system-ui`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  ctx.setLineDash([5 * ratio, 4 * ratio]);
  for (const [index, { at }] of rungs.entries()) {
    const x = plot.valToPos(at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(`rung ${index + 1}`, x + 3 * ratio, bbox.top);
  }
  ctx.restore();
}

function drawCurves(plot: uPlot, curves: readonly MetricCurve[], trials: ReadonlyMap<number, TrialSummary>, colours: ChartColours, marked: number | null): void {
  const { ctx } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  ctx.clip();
  const alpha = curves.length > 300 ? 0.15 : curves.length > 50 ? 0.5 : 0.85;
  for (const curve of curves) {
    const trial = trials.get(curve.trial);
    drawCurve(plot, curve, trial?.stoppedEarly ? colours.warning : colours.accent, alpha, Boolean(trial?.stoppedEarly));
  }
  const chosen = curves.find((curve) => curve.trial === marked);
  if (chosen) drawCurve(plot, chosen, colours.text, 1, Boolean(trials.get(chosen.trial)?.stoppedEarly), 3);
  ctx.restore();
}

function drawCurve(plot: uPlot, curve: MetricCurve, colour: string, alpha: number, isStopped: boolean, width = 1): void {
  const { ctx } = plot;
  const ratio = devicePixelRatio;
  ctx.globalAlpha = alpha;
  ctx.strokeStyle = colour;
  ctx.lineWidth = width * ratio;
  ctx.beginPath();
  let [x, y] = [0, 0];
  for (const [index, value] of curve.values.entries()) {
    x = plot.valToPos(curve.at[index] ?? 0, "x", true);
    y = plot.valToPos(value, "y", true);
    if (index === 0) ctx.moveTo(x, y);
    else ctx.lineTo(x, y);
  }
  if (curve.values.length === 1) ctx.rect(x - ratio, y - ratio, 2 * ratio, 2 * ratio);
  ctx.stroke();
  if (!isStopped) return;
  ctx.globalAlpha = Math.max(alpha, 0.7);
  const arm = 4 * ratio;
  ctx.beginPath();
  ctx.moveTo(x - arm, y - arm);
  ctx.lineTo(x + arm, y + arm);
  ctx.moveTo(x - arm, y + arm);
  ctx.lineTo(x + arm, y - arm);
  ctx.stroke();
}

const NEAR_PX = 18;

/** Return the trial whose curve has the point nearest to the cursor; null if none is near. */
function nearestCurve(plot: uPlot, curves: readonly MetricCurve[]): number | null {
  const { left = -1, top = -1 } = plot.cursor;
  if (left < 0 || top < 0) return null;
  let [best, nearest]: [number, number | null] = [NEAR_PX * NEAR_PX, null];
  for (const curve of curves) {
    for (const [index, value] of curve.values.entries()) {
      const across = plot.valToPos(curve.at[index] ?? 0, "x") - left;
      if (Math.abs(across) > NEAR_PX) continue;
      const distance = across * across + (plot.valToPos(value, "y") - top) ** 2;
      if (distance < best) [best, nearest] = [distance, curve.trial];
    }
  }
  return nearest;
}
