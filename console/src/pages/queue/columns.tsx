/** The columns of the queue. */

import { formatAccelerators, formatCount } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { describePrices, formatCost, formatShortCost, formatStepTime, readCost, type JobCost } from "../../core/observed";
import { isEnded, isWaiting, jobIdOf, KIND_NAMES, REASON_TEXTS, spanStart } from "../../core/queue";
import { jobPath, studyPath } from "../../core/route";
import type { JobRow, ProgressRow } from "../../net/types";
import { StateMark } from "../../ui/state";
import { Span, Time } from "../../ui/time";
import type { Column } from "../../ui/virtual_table";
import type { Selection } from "./selection";

/** Return the address of the page of a row. */
export function pathOf(row: JobRow): string {
  const path = row.kind === "TUNING_JOB" ? studyPath : jobPath;
  return path(row.project, jobIdOf(row));
}

export interface RowOrders {
  selection: Selection;
  /** The uid of the row whose explanation is open. */
  opened: string | null;
  explain: (row: JobRow) => void;
  openActions: (row: JobRow) => void;
  /** How far running jobs are, by resource name. */
  progress: ReadonlyMap<string, ProgressRow>;
}

const stop = (isActive: boolean): number => (isActive ? 0 : -1);

function Name({ row, isActive }: { row: JobRow; isActive: boolean }) {
  return <a href={pathOf(row)} tabIndex={stop(isActive)} title={showHidden(row.displayName)}>{showHidden(row.displayName)}</a>;
}

function State({ row }: { row: JobRow }) {
  return (
    <>
      <StateMark state={row.state} />
      {row.attempt > 1 && <span class="hint" title={`${row.restarts} restarts`}> attempt {row.attempt}</span>}
    </>
  );
}

function Why({ row, isActive, orders }: { row: JobRow; isActive: boolean; orders: RowOrders }) {
  if (isEnded(row)) return <span class="hint">ended <Time value={row.endTime} /> {whereOf(row)}</span>;
  if (!isWaiting(row)) return <><Progress row={orders.progress.get(row.name)} /> <span class="hint">{whereOf(row)}</span></>;
  const isOpen = orders.opened === row.uid;
  return (
    <>
      <button type="button" class="link" tabIndex={stop(isActive)} aria-expanded={isOpen} onClick={() => orders.explain(row)}>
        why<span aria-hidden="true">{isOpen ? " ▾" : " ▸"}</span>
      </button>
      {" "}
      <span title={row.reason ?? ""}>{REASON_TEXTS[row.reason ?? "NOT_LOOKED_AT"] ?? row.reason}</span>
    </>
  );
}

function Progress({ row }: { row: ProgressRow | undefined }) {
  if (!row || row.step === null) return null;
  const rate = row.step_s === null ? "" : `, ${formatStepTime(row.step_s)} a step`;
  if (!row.total) return <span title={`step ${formatCount(row.step)}${rate}`}>step {formatCount(row.step)}</span>;
  const share = Math.min(1, row.step / row.total);
  return (
    <span class="row-progress" title={`step ${formatCount(row.step)} of ${formatCount(row.total)}${rate}`}>
      <meter min={0} max={1} value={share} aria-label="Progress" /> {Math.floor(100 * share)} %
    </span>
  );
}

const costOf = (row: JobRow, orders: RowOrders): JobCost | null => readCost(orders.progress.get(row.name)?.cost);

function Cost({ cost }: { cost: JobCost | null }) {
  return cost ? <span title={`${formatCost(cost)} so far; ${describePrices(cost)}`}>{formatShortCost(cost)}</span> : <span class="hint">–</span>;
}

/** Return the nodes of a job, or nothing for an ended one without any. */
function whereOf(row: JobRow): string {
  if (!row.node) return "";
  return row.nodes > 1 ? `on ${row.node} and ${formatCount(row.nodes - 1)} more` : `on ${row.node}`;
}

function SelectBox({ row, isActive, selection }: { row: JobRow; isActive: boolean; selection: Selection }) {
  return (
    <input type="checkbox" tabIndex={stop(isActive)} aria-label={`Select ${showHidden(row.displayName)}`}
      checked={selection.has(row.uid)} onClick={(event) => selection.toggle(row.uid, event.shiftKey)} />
  );
}

function SelectAll({ selection }: { selection: Selection }) {
  return (
    <input type="checkbox" aria-label="Select all rows, at most 500" title="Select all rows, at most 500"
      checked={selection.size > 0} indeterminate={selection.size > 0 && !selection.isAll}
      onClick={() => selection.toggleAll()} />
  );
}

function MoreButton({ row, isActive, orders }: { row: JobRow; isActive: boolean; orders: RowOrders }) {
  return (
    <button type="button" class="plain" tabIndex={stop(isActive)} aria-label={`Actions for ${showHidden(row.displayName)}`} onClick={() => orders.openActions(row)}>⋯</button>
  );
}

const selectColumn = (orders: RowOrders): Column<JobRow> => ({
  id: "select", title: <SelectAll selection={orders.selection} />, width: "1.4rem", cell: (row, isActive) => <SelectBox row={row} isActive={isActive} selection={orders.selection} />,
});
const moreColumn = (orders: RowOrders): Column<JobRow> => ({
  id: "more", title: <span class="hidden-text">Actions</span>, width: "1.8rem", cell: (row, isActive) => <MoreButton row={row} isActive={isActive} orders={orders} />,
});

/** Return the columns of a wide table. */
export function wideColumns(orders: RowOrders, hasProjects: boolean): Column<JobRow>[] {
  const project: Column<JobRow>[] = hasProjects
    ? [{ id: "project", title: "Project", width: "minmax(4.5rem, 0.5fr)", isSortable: true, cell: (row) => row.project }]
    : [];
  return [
    selectColumn(orders),
    { id: "name", title: "Name", width: "minmax(8rem, 1.3fr)", isSortable: true, cell: (row, isActive) => <Name row={row} isActive={isActive} /> },
    ...project,
    { id: "kind", title: "Kind", width: "4.8rem", isSortable: true, cell: (row) => KIND_NAMES[row.kind] ?? row.kind },
    { id: "state", title: "State", width: "minmax(7rem, 0.8fr)", isSortable: true, cell: (row) => <State row={row} /> },
    { id: "why", title: "Why, how far, where", width: "minmax(14rem, 2.2fr)", isSortable: true, cell: (row, isActive) => <Why row={row} isActive={isActive} orders={orders} /> },
    { id: "cost", title: "Cost so far", width: "6rem", isSortable: true, isNumber: true, cell: (row) => <Cost cost={costOf(row, orders)} /> },
    { id: "gpus", title: "GPUs", width: "minmax(4.5rem, 0.4fr)", isSortable: true, isNumber: true, cell: (row) => formatAccelerators(row.gpus) || "–" },
    { id: "replicas", title: "Replicas", width: "4.6rem", isSortable: true, isNumber: true, cell: (row) => formatCount(row.replicas) },
    { id: "time", title: "Time", width: "6.2rem", isSortable: true, isNumber: true, cell: (row) => <Span start={spanStart(row)} end={row.endTime} /> },
    { id: "creator", title: "By", width: "minmax(4rem, 0.6fr)", isSortable: true, cell: (row) => <span title={showHidden(row.creator)}>{showHidden(row.creator)}</span> },
    moreColumn(orders),
  ];
}

/** Return the columns of a narrow screen: two lines a row. */
export function narrowColumns(orders: RowOrders): Column<JobRow>[] {
  return [
    selectColumn(orders),
    {
      id: "name", title: "Name, state", width: "minmax(0, 1fr)", isSortable: true,
      cell: (row, isActive) => (
        <>
          <div class="cell-line"><Name row={row} isActive={isActive} /></div>
          <div class="cell-line"><State row={row} /> <Why row={row} isActive={isActive} orders={orders} />{costOf(row, orders) && <> · <Cost cost={costOf(row, orders)} /></>}</div>
        </>
      ),
    },
    { id: "time", title: "Time", width: "6.2rem", isSortable: true, isNumber: true, cell: (row) => <Span start={spanStart(row)} end={row.endTime} /> },
    moreColumn(orders),
  ];
}
