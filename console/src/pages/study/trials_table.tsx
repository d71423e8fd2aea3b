/** All trials as a table; a row chooses its trial. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { formatNumber, formatPlural } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { writeCsv } from "../../core/csv";
import { formatGoodput, formatShortCost, readCost, type JobCost } from "../../core/observed";
import { describeOrigin, describeWhy, listArguments } from "../../core/study";
import type { TrialGoodput, TrialSummary } from "../../net/types";
import { copyText } from "../../ui/clipboard";
import { saveText } from "../../ui/save";
import { StateMark } from "../../ui/state";
import { VirtualTable, type Column, type Sort } from "../../ui/virtual_table";
import type { StudyGoodput, StudyName } from "./data";
import { TrialLink } from "./trial";
import { chooseTrial, type StudyView } from "./view";

type Value = number | string | null;

interface TrialColumn extends Column<TrialSummary> {
  value: (trial: TrialSummary) => Value;
}

function secondsOf(trial: TrialSummary): number | null {
  if (!trial.startTime || !trial.endTime) return null;
  return Math.round((Date.parse(trial.endTime) - Date.parse(trial.startTime)) / 100) / 10;
}

const show = (value: Value): string => (typeof value === "number" ? formatNumber(value, 5) : showHidden(value ?? ""));

function valueColumn(id: string, title: string, value: TrialColumn["value"], isNumber = true): TrialColumn {
  return { id, title: <span title={showHidden(title)}>{showHidden(title)}</span>, width: "minmax(6.5rem, 9rem)", isNumber, isSortable: true, value, cell: (trial) => show(value(trial)) };
}

/** Return the column of a metric; a value beyond its limit is marked. */
function metricColumn(id: string): TrialColumn {
  const column = valueColumn(`metrics.${id}`, id, (trial) => trial.metrics[id] ?? null);
  const cell = (trial: TrialSummary) => {
    const limit = (trial.brokenLimits ?? []).find(({ metric }) => metric === id);
    return limit ? <span class="beyond" title={showHidden(limit.reason)}>✕ {show(column.value(trial))}</span> : show(column.value(trial));
  };
  return { ...column, cell };
}

/** Return the columns of a study; parameters and metrics of one name stay apart by the ids. */
function columnsOf(view: StudyView, name: StudyName, goodput: StudyGoodput | null): TrialColumn[] {
  const parameters = [...new Set([...view.study.parameters.map(({ id }) => id), ...view.trials.slice(-100).flatMap((trial) => Object.keys(trial.parameters))])];
  const categories = new Set(view.study.parameters.filter(({ kind }) => kind === "CATEGORICAL").map(({ id }) => id));
  return [
    { ...valueColumn("number", "#", (trial) => trial.number), width: "4.5rem" },
    { id: "state", title: "State", width: "9rem", isSortable: true, value: (trial) => trial.state, cell: (trial) => <StateMark state={trial.state} /> },
    ...view.study.metrics.map(({ id }) => metricColumn(id)),
    ...originColumns(view.trials),
    { ...valueColumn("step", "step", (trial) => trial.step ?? null), width: "5rem" },
    ...parameters.map((id) => valueColumn(`parameters.${id}`, id, (trial) => trial.parameters[id] ?? null, !categories.has(id))),
    { ...valueColumn("seconds", "time (s)", secondsOf), width: "5rem" },
    ...(goodput ? timeColumns(goodput) : []),
    { id: "links", title: "Log", width: "8rem", value: () => null, cell: (trial, isActive) => <><TrialLink name={name} trial={trial} tabIndex={isActive ? 0 : -1} /> <button type="button" class="link" tabIndex={isActive ? 0 : -1} onClick={() => void copyText(listArguments(trial), "arguments")}>arguments</button></> },
    { id: "why", title: "Why", width: "minmax(14rem, 2fr)", value: describeWhy, cell: (trial) => <span title={trial.earlyStop?.reason ?? describeWhy(trial)}>{describeWhy(trial)}</span> },
  ];
}

/** Return the column that says why trials have their values; none if the search chose all. */
function originColumns(trials: readonly TrialSummary[]): TrialColumn[] {
  const longest = Math.max(0, ...new Set(trials.map((trial) => describeOrigin(trial).length)));
  if (longest === 0) return [];
  const width = `${Math.min(Math.max(Math.ceil(longest * 0.46) + 1, 7), 20)}rem`;
  const cell = (trial: TrialSummary) => <span title={describeOrigin(trial)}>{describeOrigin(trial)}</span>;
  return [{ ...valueColumn("origin", "origin", describeOrigin, false), width, cell }];
}

/** Return the columns of goodput and cost; the oldest of more than 1,000 trials have neither. */
function timeColumns({ trials }: StudyGoodput): TrialColumn[] {
  const goodputOf = ({ number }: TrialSummary): TrialGoodput | undefined => trials.get(number);
  const costOf = (trial: TrialSummary): JobCost | null => readCost(goodputOf(trial)?.cost);
  return [
    {
      ...valueColumn("goodput", "goodput", (trial) => goodputOf(trial)?.goodput ?? goodputOf(trial)?.at_most ?? null), width: "6rem",
      cell: (trial) => formatGoodput(goodputOf(trial) ?? { goodput: null, at_most: null }).replace("at most", "≤"),
    },
    { ...valueColumn("cost", "cost", (trial) => costOf(trial)?.amount ?? null), width: "6.5rem", cell: (trial) => formatShortCost(costOf(trial)) },
  ];
}

function sortTrials(trials: readonly TrialSummary[], column: TrialColumn | undefined, descending: boolean): readonly TrialSummary[] {
  if (!column) return trials;
  const sign = descending ? -1 : 1;
  const keyed = trials.map((trial) => ({ trial, value: column.value(trial) }));
  keyed.sort((left, right) => {
    if (left.value === null || right.value === null) return Number(left.value === null) - Number(right.value === null);
    if (typeof left.value === "number" && typeof right.value === "number") return sign * (left.value - right.value);
    return sign * String(left.value).localeCompare(String(right.value), undefined, { numeric: true });
  });
  return keyed.map(({ trial }) => trial);
}

function saveCsv(columns: readonly TrialColumn[], trials: readonly TrialSummary[], job: string): void {
  const shown = columns.filter((column) => column.id !== "links");
  const rows = trials.map((trial) => shown.map((column) => String(column.value(trial) ?? "")));
  saveText(`study-${job.replace(/[^\w.-]/g, "_")}.csv`, "text/csv", writeCsv([shown.map((column) => column.id), ...rows]));
}

interface TableProps {
  view: StudyView;
  name: StudyName;
  /** The trials to show: all, or those in the chosen ranges. */
  trials: readonly TrialSummary[];
  /** Null before it was read. */
  goodput: StudyGoodput | null;
}

export function TrialsTable({ view, name, trials, goodput }: TableProps) {
  const sort = useSignal<Sort>({ column: "number", descending: true });
  const columns = useMemo(() => columnsOf(view, name, goodput), [view.study, view.trials.length, name.job, goodput]);
  const { column, descending } = sort.value;
  const rows = useMemo(() => sortTrials(trials, columns.find(({ id }) => id === column), descending), [trials, columns, column, descending]);
  const leaders = new Set(view.study.leaders);
  const onSort = (id: string): void => {
    sort.value = { column: id, descending: column === id ? !descending : false };
  };
  return (
    <section class="figure wide" aria-label="Trials">
      <header>
        <h2>Trials</h2>
        <span class="tools">
          <span class="hint">{formatPlural(trials.length, "trial")}{trials.length < view.trials.length ? ` of ${view.trials.length}` : ""}</span>
          <button type="button" class="link" onClick={() => saveCsv(columns, rows, name.job)}>CSV</button>
        </span>
      </header>
      <div class="fit" style={{ "--fit": `${rows.length * 30 + 52}px` }}>
      <VirtualTable label="Trials" columns={columns} rows={rows} rowKey={(trial) => String(trial.number)} rowHeight={30} sort={sort.value} onSort={onSort}
        active={view.chosen === null ? null : String(view.chosen)} onActivate={(key) => chooseTrial(Number(key))} rowClass={(trial) => (leaders.has(trial.number) ? "leader" : "")} />
      </div>
    </section>
  );
}
