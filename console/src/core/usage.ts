/** Periods, order and CSV of the page Usage. Pure. */

import type { MachineUse } from "../net/types";
import { writeCsv } from "./csv";
import { shortAccelerator } from "./format";
import { showHidden } from "./hidden";
import { BUCKETS, formatAmount, formatCost, formatHours, readCost, sumOf, type JobCost } from "./observed";

export const GROUPINGS = [["project", "by project"], ["user", "by user"], ["type", "by machine type"], ["day", "by day"], ["job", "by job"], ["node", "by node"], ["gpu", "by GPU"]] as const;
export type Grouping = (typeof GROUPINGS)[number][0];

/** The first day of a period as the server reads it; but for yesterday, it lasts until today. Days are those of UTC. */
export const PERIODS: readonly (readonly [string, string])[] = [
  ["today", "today"], ["yesterday", "yesterday"], ["7d", "the last 7 days"], ["30d", "the last 30 days"], ["90d", "the last 90 days"], ["365d", "the last 365 days"],
];
const PERIOD = "7d";

export interface UsageQuery {
  by: Grouping;
  /** The word of a period; "" if the first and the last day are chosen. */
  period: string;
  /** Days as 2026-11-30 in UTC; "" for none. */
  from: string;
  to: string;
}

const readDay = (text: string | null): string => (text !== null && /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)) ? text : "");

/** Return the view that an address asks for. */
export function readUsageQuery(query: URLSearchParams): UsageQuery {
  const by = GROUPINGS.find(([word]) => word === query.get("by"))?.[0] ?? "project";
  const [from, to] = [readDay(query.get("from")), readDay(query.get("to"))];
  const period = from || to ? "" : PERIODS.find(([word]) => word === query.get("period"))?.[0] ?? PERIOD;
  return { by, period, from, to };
}

/** Return the first and the last day of a view as the server reads them; null for its default. */
export function daysOf({ period, from, to }: UsageQuery): { since: string | null; until: string | null } {
  if (period) return { since: period, until: period === "yesterday" ? period : null };
  return { since: from || null, until: to || null };
}

const KEYS: Readonly<Record<string, (row: MachineUse) => number | string>> = {
  key: (row) => row.key, jobs: (row) => row.jobs, user: (row) => row.user, gpus: (row) => sumOf(row.gpu_seconds), vcpus: (row) => sumOf(row.vcpu_seconds),
  idle: (row) => row.gpu_seconds.idle ?? 0, energy: (row) => row.energy_j ?? -1, cost: (row) => readCost(row.cost)?.amount ?? -1,
};

/** Return the rows in the order of a column; equal ones by their key. */
export function sortUsage(rows: readonly MachineUse[], column: string, descending: boolean): MachineUse[] {
  const keyOf = KEYS[column] ?? ((row: MachineUse) => row.key);
  const sign = descending ? -1 : 1;
  return [...rows].sort((left, right) => {
    const [one, other] = [keyOf(left), keyOf(right)];
    return one === other ? (left.key < right.key ? -1 : 1) : one < other ? -sign : sign;
  });
}

/** Return whether the rows are of single machines, which name their users. */
export function isOfMachines(by: Grouping): boolean {
  return by === "node" || by === "gpu";
}

/** Return "H100" of a row of a GPU; "" for other machines, and for an unknown type. */
export function gpuType({ gpu }: MachineUse): string {
  return gpu ? shortAccelerator(gpu.type) : "";
}

/** Return "project/user 12.5 h" for each user of a machine, the longest first; the last word counts further users. `withIdle`: "…, idle 3 h". */
export function listHolders({ holders, more_holders: more = 0 }: MachineUse, withIdle = false): string[] {
  const words = (holders ?? []).map(({ project, user, seconds, idle_s: idle }) =>
    showHidden(`${project}/${user || "anonymous"} ${formatHours(seconds)} h${withIdle && idle > 0 ? `, idle ${formatHours(idle)} h` : ""}`));
  return more > 0 ? [...words, `and ${more} more`] : words;
}

/** Return the rows as CSV, with seconds as the server counts them. */
export function usageCsv(by: Grouping, rows: readonly MachineUse[]): string {
  const buckets = BUCKETS.map(({ id }) => id);
  const second = by === "job" ? "user" : "jobs";
  const ofMachines = isOfMachines(by);
  const head = [by, second, ...(ofMachines ? ["gpu_uuid", "gpu_type", "users"] : []), ...buckets.map((id) => `gpu_seconds_${id}`), "vcpu_seconds", "energy_joules", "cost", "currency", "cost_is_at_least", "other_costs", "idle_cost"];
  const lines = rows.map((row) => {
    const cost = readCost(row.cost);
    return [
      row.key, String(row[second]), ...(ofMachines ? [row.gpu?.uuid ?? "", row.gpu?.type ?? "", listHolders(row, true).join("; ")] : []), ...buckets.map((id) => String(row.gpu_seconds[id] ?? 0)), String(sumOf(row.vcpu_seconds)), String(row.energy_j ?? ""),
      String(cost?.amount ?? ""), cost?.currency ?? "", cost ? String(cost.at_least) : "", otherCosts(row).map(formatCost).join("; "),
      String(cost?.parts.idle ?? ""),
    ];
  });
  return writeCsv([head, ...lines]);
}

/** Return what the machines cost while their GPUs ran nothing; "" for none, or without a price. */
export function formatIdleCost(row: MachineUse): string {
  return [readCost(row.cost), ...otherCosts(row)].flatMap((cost) => (cost?.parts.idle ? [`${formatAmount(cost.parts.idle)} ${cost.currency ?? ""}`] : [])).join(" + ");
}

/** Return the costs in other currencies, which are never added. */
export function otherCosts(row: MachineUse): JobCost[] {
  return row.other_costs.map(readCost).filter((cost) => cost !== null);
}
