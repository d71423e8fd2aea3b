/** Usage: which projects, users or machine types held GPUs, how much of it was productive, and what it cost. */

import { useSignal } from "@preact/signals";

import { formatCount, formatPlural } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { describePrices, FLEET_BUCKETS, formatCost, formatEnergy, formatHours, formatShare, formatShortCost, readCost, sharesOf, sumOf } from "../../core/observed";
import { jobPath, type Route } from "../../core/route";
import { setQuery } from "../../core/router";
import { daysOf, formatIdleCost, gpuType, GROUPINGS, isOfMachines, listHolders, PERIODS, otherCosts, readUsageQuery, sortUsage, usageCsv, type Grouping, type UsageQuery } from "../../core/usage";
import { callApi } from "../../net/api";
import { ALL_PROJECTS, project } from "../../net/project";
import type { MachineUse, UsageReport } from "../../net/types";
import { ErrorNotice } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { saveText } from "../../ui/save";
import { Select } from "../../ui/select";
import { TimeBar, type Shares } from "../../ui/time_bar";
import { VirtualTable, type Column, type Sort } from "../../ui/virtual_table";

export default function UsagePage({ route }: { route: Route }) {
  const view = readUsageQuery(route.query);
  const usage = useResource(`usage ${project.value} ${JSON.stringify(view)}`, (signal) => readUsage(view, signal));
  const answer = usage.value.value;
  const error = usage.error.value;
  return (
    <main id="main" tabIndex={-1} class="usage">
      <h1>Usage</h1>
      <Tools view={view} answer={answer} reload={usage.reload} />
      {error && <ErrorNotice error={error} retry={usage.reload} />}
      {!answer && !error && <p class="loading" role="status">Loading…</p>}
      {answer && <Answer answer={answer} by={view.by} />}
    </main>
  );
}

function readUsage(view: UsageQuery, signal: AbortSignal): Promise<UsageReport> {
  const scope = project.value === ALL_PROJECTS ? null : project.value;
  return callApi<UsageReport>("GET", "/usage", { query: { by: view.by, ...daysOf(view), project: scope }, signal });
}

function Tools({ view, answer, reload }: { view: UsageQuery; answer: UsageReport | null; reload: () => void }) {
  const setDay = (name: string) => (event: { currentTarget: HTMLInputElement }) => setQuery({ period: null, [name]: event.currentTarget.value });
  return (
    <div class="tools">
      <Select label="Rows" value={view.by} options={GROUPINGS} onChoose={(by) => setQuery({ by: by === "project" ? null : by })} />
      <Select label="Period" value={view.period} options={[...(view.period ? [] : [["", "from day to day"] as const]), ...PERIODS]}
        onChoose={(period) => setQuery({ period, from: null, to: null })} />
      <label>from <input type="date" value={view.from} onChange={setDay("from")} /></label>
      <label>to <input type="date" value={view.to} onChange={setDay("to")} /></label>
      <button type="button" onClick={reload}>Read again</button>
      {answer && <button type="button" onClick={() => saveText(`usage-by-${view.by}.csv`, "text/csv", usageCsv(view.by, answer.rows))}>CSV</button>}
    </div>
  );
}

function Answer({ answer, by }: { answer: UsageReport; by: Grouping }) {
  const { total } = answer;
  const shares = sharesOf(total.gpu_seconds);
  const cost = readCost(total.cost);
  const prices = cost ? describePrices(cost) : "";
  const idleCost = formatIdleCost(total);
  const fleet = sharesOf(answer.fleet?.gpu_seconds ?? {}, FLEET_BUCKETS);
  return (
    <>
      <p class="wide">
        {formatPlural(total.jobs, "job")} from {answer.since} to {answer.until} (UTC): <b>{formatHours(sumOf(total.gpu_seconds))} GPU hours</b>
        {shares.length > 0 && <>, of which {describeShares(shares)}</>}
        ; {formatHours(sumOf(total.vcpu_seconds))} vCPU hours{total.energy_j === null ? "" : `; ${formatEnergy(total.energy_j)} of the GPUs`}; cost <b>{[cost, ...otherCosts(total)].map(formatCost).join(" and ")}</b>{idleCost && `, of which ${idleCost} while GPUs were idle`}.
        {prices && <span class="hint"> {prices}.</span>}
      </p>
      {fleet.length > 0 && (
        <section aria-label="All GPUs">
          <h2>All GPUs</h2>
          <TimeBar shares={fleet} label="GPUs" />
          <p class="hint legend">{fleet.map(({ id, title, meaning, seconds, share }) => <span key={id}><span class={`bucket-sign b-${id}`} aria-hidden="true" /> {title}, {meaning}: {formatHours(seconds)} GPU hours, {formatShare(share)}</span>)}</p>
        </section>
      )}
      <h2>GPU time {GROUPINGS.find(([word]) => word === by)?.[1]}</h2>
      {shares.length > 0 && <p class="hint legend">{shares.map(({ id, title, meaning, share }) => <span key={id}><span class={`bucket-sign b-${id}`} aria-hidden="true" /> {title} {formatShare(share)}: {meaning}</span>)}</p>}
      {answer.rows.length === 0 ? <p>No job held a machine in this period.</p> : <Rows rows={answer.rows} by={by} />}
      {isOfMachines(by) && answer.rows.some(({ holders }) => !holders) && <p class="hint">The users of machines are listed for at most 62 days: choose fewer days.</p>}
      {answer.left_out > 0 && <p class="hint">{formatPlural(answer.left_out, "row")} with less GPU time are not listed; the sums include them.</p>}
    </>
  );
}

/** Return how much was productive and idle, and how much of jobs that report no steps. */
function describeShares(shares: Shares): string {
  const shareOf = (id: string): number => shares.find((share) => share.id === id)?.share ?? 0;
  const unknown = shareOf("unknown");
  const parts = [`${formatShare(shareOf("productive"))} productive`, ...(unknown > 0 ? [`${formatShare(unknown)} of jobs that report no steps`] : [])];
  return `${parts.join(", ")} and ${formatShare(shareOf("idle"))} held and idle`;
}

function Cost({ row }: { row: MachineUse }) {
  const cost = readCost(row.cost);
  return <span title={cost ? describePrices(cost) : ""}>{[cost, ...otherCosts(row)].map(formatShortCost).join(" + ")}</span>;
}

/** The key of a row; a job that still exists has a page. */
function Key({ row, by }: { row: MachineUse; by: Grouping }) {
  const text = showHidden(row.key) || "–";
  if (by === "gpu" && row.gpu) return <span title={row.gpu.uuid}>{text} <span class="hint">{gpuType(row)}</span></span>;
  const [owner, job] = by === "job" ? row.key.split("/", 2) : [];
  return owner && job ? <a href={jobPath(owner, job)} title={text}>{text}</a> : <span title={text}>{text}</span>;
}

/** The users of a machine; a narrow cell shows the first ones. */
function Holders({ row }: { row: MachineUse }) {
  return <span title={listHolders(row, true).join("\n")}>{listHolders(row).join("; ") || "–"}</span>;
}

const TITLES: Readonly<Record<Grouping, string>> = { project: "Project", user: "User", type: "Machine type", day: "Day", job: "Job", node: "Node", gpu: "GPU" };

function columnsOf(by: Grouping): Column<MachineUse>[] {
  return [
    { id: "key", title: TITLES[by], width: by === "job" ? "minmax(15rem, 1.5fr)" : "minmax(8rem, 1.5fr)", isSortable: true, cell: (row) => <Key row={row} by={by} /> },
    isOfMachines(by)
      ? { id: "holders", title: "Held by", width: "minmax(15rem, 2.5fr)", cell: (row) => <Holders row={row} /> }
      : by === "job"
        ? { id: "user", title: "By", width: "minmax(4.5rem, 0.7fr)", isSortable: true, cell: (row) => <span title={showHidden(row.user)}>{showHidden(row.user) || "–"}</span> }
        : { id: "jobs", title: "Jobs", width: "4.5rem", isNumber: true, isSortable: true, cell: (row) => formatCount(row.jobs) },
    { id: "gpus", title: "GPU hours", width: "6.5rem", isNumber: true, isSortable: true, cell: (row) => formatHours(sumOf(row.gpu_seconds)) },
    { id: "bar", title: "Use of the GPU hours", width: "minmax(9rem, 3fr)", cell: (row) => <TimeBar shares={sharesOf(row.gpu_seconds)} label={row.key} /> },
    { id: "idle", title: "Held and idle", width: "11rem", isNumber: true, isSortable: true, cell: (row) => [`${formatHours(row.gpu_seconds.idle ?? 0)} h`, formatIdleCost(row)].filter(Boolean).join(" · ") },
    { id: "vcpus", title: "vCPU hours", width: "6.5rem", isNumber: true, isSortable: true, cell: (row) => formatHours(sumOf(row.vcpu_seconds)) },
    { id: "energy", title: "Energy", width: "6rem", isNumber: true, isSortable: true, cell: (row) => formatEnergy(row.energy_j) },
    { id: "cost", title: "Cost", width: "8.5rem", isNumber: true, isSortable: true, cell: (row) => <Cost row={row} /> },
  ];
}

function Rows({ rows, by }: { rows: readonly MachineUse[]; by: Grouping }) {
  const sort = useSignal<Sort>({ column: "", descending: false });
  const active = useSignal<string | null>(null);
  const shown = sort.value.column ? sortUsage(rows, sort.value.column, sort.value.descending) : rows;
  const onSort = (column: string): void => {
    sort.value = { column, descending: sort.value.column === column ? !sort.value.descending : column !== "key" };
  };
  return (
    <div class="fit" style={{ "--fit": `${rows.length * 38 + 52}px` }}>
      <VirtualTable label={`Usage by ${by}`} columns={columnsOf(by)} rows={shown} rowKey={(row) => row.key} rowHeight={38}
        sort={sort.value} onSort={onSort} active={active.value} onActivate={(key) => (active.value = key)} />
    </div>
  );
}
