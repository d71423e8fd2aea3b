/** The Pareto front: a point for each trial over two objectives, and a line around what the front beats. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { formatCount, formatNumber, formatPlural } from "../../core/format";
import { frontPoints, nearestPoint, objectivesOf, scaleOf, staircase, type FrontPoint, type PixelScale, type PointKind } from "../../core/front";
import { showHidden } from "../../core/hidden";
import { listArguments } from "../../core/study";
import type { StudyMetric } from "../../net/types";
import { Figure } from "../../ui/figure";
import { Select } from "../../ui/select";
import { chooseTrial, type StudyView } from "./view";

/** More points than this are a surface: of the trials outside of the front the newest are drawn. */
const POINTS_MAX = 2000;
const HEIGHT = 300;
const MARGIN = { left: 66, right: 14, top: 22, bottom: 46 };
const NEAR_PX = 18;
const ARM = 3.5;

const WORDS: Readonly<Record<PointKind, string>> = { front: "in the Pareto front", beaten: "another trial is better", beyond: "beyond a limit" };

export function Front({ view }: { view: StudyView }) {
  const objectives = useMemo(() => objectivesOf(view.study.metrics), [view.study]);
  const chosen = useSignal<{ x: string; y: string }>({ x: "", y: "" });
  const pointed = useSignal<FrontPoint | null>(null);
  const across = objectives.find(({ id }) => id === chosen.value.x) ?? objectives[0];
  const up = objectives.find(({ id }) => id === chosen.value.y) ?? objectives.find((metric) => metric !== across);
  const points = useMemo(() => (across && up ? frontPoints(view.trials, new Set(view.study.leaders), across, up) : []), [view.trials, view.study, across, up]);
  const drawn = useMemo(() => cut(points), [points]);
  if (!across || !up) return null;
  const isPair = objectives.length === 2;
  const sentence = describe(view, points, drawn, across, up);
  const options = objectives.map(({ id }) => [id, showHidden(id)] as const);
  const tools = isPair ? null : (
    <>
      <Select label="Horizontal objective" options={options} value={across.id} onChoose={(x) => (chosen.value = { x, y: x === up.id ? across.id : up.id })} />
      <Select label="Vertical objective" options={options} value={up.id} onChoose={(y) => (chosen.value = { x: y === across.id ? up.id : across.id, y })} />
    </>
  );
  const table = {
    heads: ["trial", ...view.study.metrics.map(({ id }) => id), "remarks"],
    rows: () => [...points].reverse().map(({ trial, kind }) => [String(trial.number), ...view.study.metrics.map(({ id }) => String(trial.metrics[id] ?? "")), describeKind(trial.brokenLimits, kind)]),
  };
  return (
    <Figure title="Pareto front" sentence={sentence} tools={tools} table={points.length > 0 ? table : undefined}>
      {points.length > 0 && <FrontChart view={view} points={drawn} across={across} up={up} hasLine={isPair} label={sentence} onPoint={(point) => (pointed.value = point)} />}
      {points.length > 0 && <Pointed point={pointed.value ?? drawn.find(({ trial }) => trial.number === view.chosen) ?? null} metrics={view.study.metrics} hasLimits={Boolean(view.study.safety)} />}
    </Figure>
  );
}

const describeKind = (limits: FrontPoint["trial"]["brokenLimits"], kind: PointKind): string => (limits ?? []).map(({ reason }) => reason).join(", ") || WORDS[kind];

/** Return all points of the front, and the newest of the others. */
function cut(points: readonly FrontPoint[]): FrontPoint[] {
  const others = points.filter(({ kind }) => kind !== "front").sort((left, right) => left.trial.number - right.trial.number);
  return [...others.slice(-POINTS_MAX), ...points.filter(({ kind }) => kind === "front")];
}

function describe(view: StudyView, points: readonly FrontPoint[], drawn: readonly FrontPoint[], across: StudyMetric, up: StudyMetric): string {
  const size = view.study.frontSize ?? 0;
  if (points.length === 0) return `No trial has succeeded with values of ${across.id} and ${up.id} yet.`;
  const beyond = points.filter(({ kind }) => kind === "beyond").length;
  const parts = [
    `${formatPlural(size, "trial")} of ${formatCount(points.length)} ${size === 1 ? "is" : "are"} in the front: no other trial is better in one objective and worse in none.`,
    beyond > 0 ? `${formatPlural(beyond, "trial")} beyond a limit ${beyond === 1 ? "is" : "are"} crossed.` : "",
    drawn.length < points.length ? `Of the others the newest ${formatCount(POINTS_MAX)} are drawn.` : "",
  ];
  return parts.filter(Boolean).join(" ");
}

function Pointed({ point, metrics, hasLimits }: { point: FrontPoint | null; metrics: readonly StudyMetric[]; hasLimits: boolean }) {
  const values = point ? metrics.filter(({ id }) => point.trial.metrics[id] !== undefined).map(({ id }) => `${showHidden(id)} ${formatNumber(point.trial.metrics[id] ?? NaN, 6)}`) : [];
  return (
    <>
      <p class="hint">
        <span class="key-best" aria-hidden="true">●━</span> Pareto front <span class="key-beaten" aria-hidden="true">●</span> other trials
        {hasLimits && <> <span class="key-early" aria-hidden="true">✕</span> beyond a limit</>}
      </p>
      <p role="status" class="pointed">
        {point ? `Trial ${point.trial.number}, ${describeKind(point.trial.brokenLimits, point.kind)}: ${values.join(", ")}; ${showHidden(listArguments(point.trial)) || "no arguments"}` : "Point at a trial to see its values and arguments; click to choose it."}
      </p>
    </>
  );
}

interface ChartProps {
  view: StudyView;
  points: readonly FrontPoint[];
  across: StudyMetric;
  up: StudyMetric;
  /** Whether a line connects the front: with more than two objectives there is none in two dimensions. */
  hasLine: boolean;
  label: string;
  onPoint: (point: FrontPoint | null) => void;
}

function FrontChart({ view, points, across, up, hasLine, label, onPoint }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const measure = (): void => void (width.value = Math.max(220, element.clientWidth));
    const sizes = new ResizeObserver(measure);
    sizes.observe(element);
    measure();
    return () => sizes.disconnect();
  }, []);
  const [right, bottom] = [width.value - MARGIN.right, HEIGHT - MARGIN.bottom];
  const isLog = (metric: StudyMetric): boolean => view.isLog && view.metric.id === metric.id;
  const x = useMemo(() => scaleOf(points.map((point) => point.x), MARGIN.left, right, isLog(across), Math.max(2, width.value / 90)), [points, across, width.value, view.isLog, view.metric]);
  const y = useMemo(() => scaleOf(points.map((point) => point.y), bottom, MARGIN.top, isLog(up), 5), [points, up, view.isLog, view.metric]);
  const nearest = (event: MouseEvent): FrontPoint | null => {
    const box = place.current?.getBoundingClientRect();
    return box ? nearestPoint(points, x, y, [event.clientX - box.left, event.clientY - box.top], NEAR_PX) : null;
  };
  const marked = points.find(({ trial }) => trial.number === view.chosen);
  const choose = (event: MouseEvent): void => {
    const point = nearest(event);
    if (point) chooseTrial(point.trial.number);
  };
  return (
    <div class="front-chart" ref={place} style={{ height: `${HEIGHT}px` }} onMouseMove={(event) => onPoint(nearest(event))} onMouseLeave={() => onPoint(null)} onClick={choose}>
      {width.value > 0 && (
        <svg role="img" aria-label={label} width={width.value} height={HEIGHT}>
          <Axes x={x} y={y} across={across} up={up} right={right} bottom={bottom} />
          {hasLine && <polyline class="front-line" points={staircase(points, across, up).map(([left, top]) => `${round(x.at(left))},${round(y.at(top))}`).join(" ")} />}
          {points.map((point) => <Mark key={point.trial.number} point={point} x={x} y={y} />)}
          {marked && <circle class="chosen-point" cx={x.at(marked.x)} cy={y.at(marked.y)} r={8} />}
        </svg>
      )}
    </div>
  );
}

const round = (value: number): number => Math.round(value * 10) / 10;

function Mark({ point, x, y }: { point: FrontPoint; x: PixelScale; y: PixelScale }) {
  const [left, top] = [round(x.at(point.x)), round(y.at(point.y))];
  if (point.kind === "beyond") return <path class="point-beyond" d={`M${left - ARM} ${top - ARM}l${2 * ARM} ${2 * ARM}m0 ${-2 * ARM}l${-2 * ARM} ${2 * ARM}`} />;
  return <circle class={`point-${point.kind}`} cx={left} cy={top} r={point.kind === "front" ? 4.5 : 3} />;
}

/** Return the name of an axis with the direction in which its values are better. */
function nameAxis(metric: StudyMetric, [larger, smaller]: readonly [string, string]): string {
  return `${showHidden(metric.id)} (${metric.goal === "MAXIMIZE" ? `larger is better ${larger}` : `smaller is better ${smaller}`})`;
}

interface AxesProps {
  x: PixelScale;
  y: PixelScale;
  across: StudyMetric;
  up: StudyMetric;
  right: number;
  bottom: number;
}

function Axes({ x, y, across, up, right, bottom }: AxesProps) {
  return (
    <g class="front-axes">
      {x.ticks.map((tick) => (
        <g key={tick}>
          <line x1={x.at(tick)} x2={x.at(tick)} y1={MARGIN.top} y2={bottom} />
          <text x={x.at(tick)} y={bottom + 16} text-anchor="middle">{formatNumber(tick, 4)}</text>
        </g>
      ))}
      {y.ticks.map((tick) => (
        <g key={tick}>
          <line x1={MARGIN.left} x2={right} y1={y.at(tick)} y2={y.at(tick)} />
          <text x={MARGIN.left - 6} y={y.at(tick) + 4} text-anchor="end">{formatNumber(tick, 4)}</text>
        </g>
      ))}
      <text x={(MARGIN.left + right) / 2} y={HEIGHT - 8} text-anchor="middle">{nameAxis(across, ["→", "←"])}</text>
      <text x={4} y={12}>{nameAxis(up, ["↑", "↓"])}</text>
    </g>
  );
}
