/** The queue: what waits and why, what runs, what ended. */

import { useComputed, useSignal, type Signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { formatPlural } from "../../core/format";
import { amountsByJob } from "../../core/observed";
import { isEnded, jobIdOf, readFilter, toCsv, type QueueFilter } from "../../core/queue";
import { CURVES_MAX, curvesPath, type Route } from "../../core/route";
import { navigate, setQuery } from "../../core/router";
import { ALL_PROJECTS, project } from "../../net/project";
import { maySubmit } from "../../net/session";
import { subscribe } from "../../net/stream";
import type { JobRow } from "../../net/types";
import { useKeys } from "../../ui/keys";
import { ErrorNotice, Notice } from "../../ui/notice";
import { useProgress } from "../../ui/progress";
import { saveText } from "../../ui/save";
import { isNarrow } from "../../ui/width";
import { VirtualTable } from "../../ui/virtual_table";
import { narrowColumns, pathOf, wideColumns, type RowOrders } from "./columns";
import { EmptyQueue } from "./empty";
import { Counts, Filters } from "./filters";
import { modelOf, OPEN_MAX, type QueueModel } from "./model";
import { askToCancel, openActions, OrderDialogs } from "./orders";
import { Selection } from "./selection";
import { WhyPanel } from "./why";

export default function QueuePage({ route }: { route: Route }) {
  return <ProjectQueue key={project.value} project={project.value} filter={readFilter(route.query)} opened={route.query.get("why")} />;
}

interface ProjectQueueProps {
  project: string;
  filter: QueueFilter;
  /** The uid of the row whose explanation is open. */
  opened: string | null;
}

function ProjectQueue({ project, filter, opened }: ProjectQueueProps) {
  const model = useMemo(() => modelOf(project), []);
  const selection = useMemo(() => new Selection(() => model.shown.peek()), []);
  const active = useSignal(scrollOf(location.search).active);
  useEffect(() => active.subscribe((uid) => (scrollOf(location.search).active = uid)), []);
  const filterKey = JSON.stringify(filter);
  useEffect(() => model.setFilter(filter), [filterKey]);
  useEffect(() => selection.clear(), [filterKey]);
  useEffect(() => {
    const end = subscribe(`queue:${project}`, (event) => model.onEvent(event));
    return () => (end(), model.close());
  }, []);
  const creators = useComputed(() => [...new Set([...model.rows.value.values()].map((row) => row.creator))].sort().slice(0, 200));
  const explain = (row: JobRow): void => {
    active.value = row.uid;
    setQuery({ why: opened === row.uid ? null : row.uid });
  };
  const progress = useProgress(project, { afterMs: PROGRESS_MS });
  useEffect(() => model.setAmounts(amountsByJob(progress.values())), [progress]);
  useQueueKeys(model, selection, active, explain);
  return (
    <main id="main" class="fill queue" tabIndex={-1}>
      <h1 class="hidden-text">Queue</h1>
      <Counts counts={model.counts.value} filter={filter} rows={model.rows.value} />
      <Filters filter={filter} creators={creators.value} />
      <Toolbar model={model} selection={selection} />
      {model.error.value && <ErrorNotice error={model.error.value} retry={() => void model.reload(false)} />}
      {model.isCut.value && <Notice tone="info">Only the newest {OPEN_MAX} open jobs are listed. Filter by a label, or choose a project.</Notice>}
      <Rows model={model} selection={selection} active={active} filter={filter} orders={{ selection, opened, explain, openActions, progress }} hasProjects={project === ALL_PROJECTS} />
      <OrderDialogs project={project} onExplain={explain} onDone={() => selection.clear()} />
    </main>
  );
}

/** The server reads samples of up to 1,000 jobs for it: the rows come first. */
const PROGRESS_MS = 1500;

interface RowsProps {
  model: QueueModel;
  selection: Selection;
  active: Signal<string | null>;
  filter: QueueFilter;
  orders: RowOrders;
  hasProjects: boolean;
}

function Rows({ model, selection, active, filter, orders, hasProjects }: RowsProps) {
  const isHovering = useSignal(false);
  const rows = rowsOf(model);
  const isEmpty = rows.length === 0;
  const isHeld = isHovering.value || (selection.size > 0 && rows.some((row) => selection.has(row.uid)));
  useEffect(() => model.setHeld(isHeld), [isHeld]);
  useEffect(() => {
    if (isEmpty) isHovering.value = false; // the pointer leaves a table that is no more without an event
  }, [isEmpty]);
  if (!model.isLoaded.value) return model.error.value ? null : <p class="loading" role="status">Reading jobs…</p>;
  if (isEmpty) return <EmptyQueue filter={filter} />;
  const opened = model.rows.value.get(orders.opened ?? "");
  return (
    <div class="hold" onPointerEnter={(event) => (isHovering.value = event.pointerType === "mouse")} onPointerLeave={() => (isHovering.value = false)}>
      <VirtualTable label="Jobs" columns={isNarrow.value ? narrowColumns(orders) : wideColumns(orders, hasProjects)} rows={rows}
        rowKey={(row) => row.uid} rowHeight={isNarrow.value ? 56 : 34}
        sort={{ column: filter.sort, descending: filter.descending }} onSort={(column) => sortBy(column, filter)}
        active={active.value} onActivate={(uid) => (active.value = uid)} onOpen={(row) => navigate(pathOf(row))}
        selected={selection.uids.value} onSelect={(row) => selection.toggle(row.uid, false)}
        detail={opened ? { key: opened.uid, content: <WhyPanel key={opened.uid} row={opened} /> } : null}
        onEnd={() => void model.readMore()} memory={scrollOf(location.search)} />
    </div>
  );
}

/** Where tables were scrolled to, by their address: the browser's back button returns to the same rows. */
interface TableScroll {
  top: number;
  /** The uid of the active row. */
  active: string | null;
}

const scrolls = new Map<string, TableScroll>();
const SCROLLS_MAX = 50;

function scrollOf(search: string): TableScroll {
  const scroll = scrolls.get(search) ?? { top: 0, active: null };
  if (scrolls.size > SCROLLS_MAX) scrolls.clear();
  scrolls.set(search, scroll);
  return scroll;
}

function rowsOf(model: QueueModel): JobRow[] {
  const rows = model.rows.value;
  return model.shown.value.map((uid) => rows.get(uid)).filter((row) => row !== undefined);
}

/** Numbers and times begin with the largest; a second click turns the order. */
function sortBy(column: string, filter: QueueFilter): void {
  const isFirst = filter.sort !== column;
  const isDescending = isFirst ? ["cost", "gpus", "replicas", "time"].includes(column) : !filter.descending;
  setQuery({ sort: (isDescending ? "-" : "") + column });
}

function Toolbar({ model, selection }: { model: QueueModel; selection: Selection }) {
  const selected = selection.size > 0 ? rowsOf(model).filter((row) => selection.has(row.uid)) : [];
  const open = selected.filter((row) => !isEnded(row)).length;
  return (
    <div class="toolbar">
      <span class="num" role="status">{model.isLoaded.value && formatPlural(model.shown.value.length, "row")}{model.hasMore.value && !model.isCut.value && ", more below"}</span>
      {model.pending.value > 0 && (
        <button type="button" class="pending" onClick={() => model.showPending()}>Show {formatPlural(model.pending.value, "change")}</button>
      )}
      {selected.length > 0 && (
        <>
          <span class="num">{selected.length} selected</span>
          {maySubmit() && open > 0 && <button type="button" class="danger" onClick={() => askToCancel(selected)}>Cancel {open}…</button>}
          {selected.length === 2 && <button type="button" onClick={() => compare(selected)}>Compare</button>}
          {selected.length >= 2 && selected.length <= CURVES_MAX && <button type="button" onClick={() => navigate(curvesPath(selected.map(nameOf)))}>Curves</button>}
          <button type="button" onClick={() => selection.clear()}>Clear</button>
        </>
      )}
      <button type="button" class="csv" onClick={() => saveText("jobs.csv", "text/csv", toCsv(rowsOf(model)))}>CSV</button>
    </div>
  );
}

const nameOf = (row: JobRow): string => `${row.project}/${jobIdOf(row)}`;

function compare(rows: readonly JobRow[]): void {
  const [left, right] = rows.map((row) => encodeURIComponent(nameOf(row)));
  navigate(`/console/compare?left=${left}&right=${right}`);
}

function useQueueKeys(model: QueueModel, selection: Selection, active: Signal<string | null>, explain: (row: JobRow) => void): void {
  const withRow = (run: (row: JobRow) => void) => () => {
    const row = model.rows.peek().get(active.peek() ?? "");
    if (row) run(row);
  };
  const move = (step: number) => () => {
    const order = model.shown.peek();
    const index = order.indexOf(active.peek() ?? "");
    active.value = order[Math.min(order.length - 1, Math.max(0, index < 0 ? 0 : index + step))] ?? null;
  };
  useKeys("Queue", [
    { keys: "/", label: "Search", run: () => document.getElementById("search")?.focus() },
    { keys: "j", label: "Next row", run: move(1) },
    { keys: "k", label: "Previous row", run: move(-1) },
    { keys: "x", label: "Select the row", run: withRow((row) => selection.toggle(row.uid, false)) },
    { keys: "X", label: "Select all rows since the last selected one", run: withRow((row) => selection.toggle(row.uid, true)) },
    { keys: "Enter", label: "Open the job", run: withRow((row) => navigate(pathOf(row))) },
    { keys: "w", label: "Why the job waits", run: withRow(explain) },
    { keys: ".", label: "Actions of the row", run: withRow(openActions) },
    { keys: "Escape", label: "Select nothing", run: () => selection.clear() },
  ]);
}
