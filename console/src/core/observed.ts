/** Writes figures of use, progress, goodput and money. Pure. */

import type { ProgressRow } from "../net/types";
import { formatBytes, formatCount, formatDuration, formatNumber } from "./format";

/** Money for machines; parts and `lacking` name types without a price. */
export interface JobCost {
  /** Null if no machine has a price. */
  amount: number | null;
  currency: string | null;
  at_least: boolean;
  lacking: readonly string[];
  parts: Readonly<Record<string, number>>;
  source?: string | null;
  date?: string | null;
}

/** Return a share as "93.3 %"; "–" for null. */
export function formatShare(share: number | null | undefined): string {
  return typeof share === "number" ? `${Number((share * 100).toFixed(1))} %` : "–";
}

/** Return the share of the time that was productive: "93.3 %", "at most 97 %", or "–". */
export function formatGoodput({ goodput, at_most: atMost }: { goodput: number | null; at_most: number | null }): string {
  if (goodput !== null) return formatShare(goodput);
  return atMost === null ? "–" : `at most ${formatShare(atMost)}`;
}

/** Return what the server has of a cost in a document without types; null for anything else. */
export function readCost(document: Readonly<Record<string, unknown>> | null | undefined): JobCost | null {
  const { amount, currency, at_least, lacking, parts, source, date } = document ?? {};
  if (typeof at_least !== "boolean" || !Array.isArray(lacking)) return null;
  return {
    at_least, lacking: lacking.map(String), amount: typeof amount === "number" ? amount : null, currency: typeof currency === "string" ? currency : null,
    parts: Object.fromEntries(Object.entries((parts ?? {}) as Record<string, unknown>).filter((entry): entry is [string, number] => typeof entry[1] === "number")),
    source: typeof source === "string" ? source : null, date: typeof date === "string" ? date : null,
  };
}

/** Return the amounts of money of rows by resource name; rows without a price are left out. */
export function amountsByJob(rows: Iterable<ProgressRow>): Map<string, number> {
  return new Map([...rows].flatMap(({ job, cost }) => {
    const amount = readCost(cost)?.amount;
    return typeof amount === "number" ? [[job, amount] as const] : [];
  }));
}

/** Return money as "12.34 USD", "at least 12.34 USD" where prices lack; "–" without any. */
export function formatCost(cost: JobCost | null | undefined): string {
  if (!cost) return "–";
  if (cost.amount === null) return "no price";
  return `${cost.at_least ? "at least " : ""}${formatAmount(cost.amount)} ${cost.currency ?? ""}`;
}

/** Return an amount of money without its currency: "1,235", "41.23", "0.047", "0". */
export function formatAmount(amount: number): string {
  if (amount >= 100) return formatCount(Math.round(amount));
  if (amount >= 1 || amount === 0) return amount === 0 ? "0" : amount.toFixed(2);
  return amount < 1e-4 ? "< 0.0001" : String(Number(amount.toPrecision(2)));
}

/** Return the values by use of a job: without steps it is not known which of the rest were productive. */
export function usesOf({ goodput }: { goodput: number | null }, values: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  if (goodput !== null) return values;
  return { ...values, productive: 0, unknown: (values.productive ?? 0) + (values.unknown ?? 0) };
}

/** Return the costs by use of a job's time: those of idle GPUs belong to the use of which they are a part. */
export function amountsOf(job: { goodput: number | null }, parts: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  const { idle = 0, ...amounts } = usesOf(job, parts);
  const use = job.goodput === null ? "unknown" : "productive";
  return { ...amounts, [use]: (amounts[use] ?? 0) + idle };
}

/** Return money for a narrow column: "≥ 12.34 USD" for at least 12.34 USD. */
export function formatShortCost(cost: JobCost | null | undefined): string {
  return formatCost(cost).replace("at least", "≥");
}

/** Return where the prices come from, and which machine types have none. */
export function describePrices(cost: JobCost): string {
  const source = [cost.source ? `prices: ${cost.source}` : "", cost.date ? `(${cost.date})` : ""].filter(Boolean).join(" ");
  return [source, ...cost.lacking].filter(Boolean).join("; ");
}

/** Return joules as "350 J", "1.2 kWh". */
export function formatEnergy(joules: number | null | undefined): string {
  if (typeof joules !== "number") return "–";
  const hours = joules / 3600;
  if (hours < 1) return `${Math.round(joules)} J`;
  return hours < 1000 ? `${Number(hours.toPrecision(3))} Wh` : `${formatNumber(hours / 1000, 4)} kWh`;
}

/** Return seconds of GPUs or vCPUs as hours: "0", "0.02", "12.5", "1,200". */
export function formatHours(seconds: number): string {
  const hours = seconds / 3600;
  if (hours > 0 && hours < 0.001) return "< 0.001";
  return hours >= 100 ? formatCount(Math.round(hours)) : String(Number(hours.toPrecision(hours < 1 ? 2 : 3)));
}

/** Return seconds of a step as "12 ms", "3.02 s", "2 min 05 s". */
export function formatStepTime(seconds: number): string {
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))} ms`;
  return seconds < 100 ? `${Number(seconds.toPrecision(3))} s` : formatDuration(seconds);
}

/** Return how the time of a step differs from the predicted one: "8 % slower". */
export function comparePace(seconds: number, predicted: number): string {
  const percent = Math.round(100 * (seconds / predicted - 1));
  if (percent === 0 || !Number.isFinite(percent)) return "as predicted";
  return percent > 0 ? `${percent} % slower` : `${-percent} % faster`;
}

/** Return "1,200 of 5,000 (24 %)", "1,200", or "" before the first step. */
export function formatSteps({ step, total }: Pick<ProgressRow, "step" | "total">): string {
  if (step === null) return "";
  if (total === null || total <= 0) return formatCount(step);
  return `${formatCount(step)} of ${formatCount(total)} (${Math.min(100, Math.floor((100 * step) / total))} %)`;
}

/** Return the seconds until the last step at the present rate; null where a number lacks. */
export function remainingSeconds({ step, total, step_s: seconds }: ProgressRow): number | null {
  return step === null || total === null || seconds === null ? null : Math.max(0, total - step) * seconds;
}

/** Return the value of a series with its unit. */
export function formatUnit(value: number, unit: string): string {
  if (unit === "bytes") return formatBytes(Math.max(0, value));
  if (unit === "bytes/s") return `${formatBytes(Math.max(0, value))}/s`;
  if (unit === "ratio") return formatShare(value);
  const text = formatNumber(Number(value.toPrecision(4)));
  return unit ? `${text} ${unit === "C" ? "°C" : unit}` : text;
}

/** The parts of a job's time, in the order in which they are shown, and what each means. */
export const BUCKETS: readonly { id: string; title: string; meaning: string }[] = [
  { id: "productive", title: "productive", meaning: "steps that count" },
  { id: "saving", title: "saving", meaning: "checkpoints, where the trainer reports their time" },
  { id: "starting", title: "starting", meaning: "from the placement to the first step" },
  { id: "stopping", title: "stopping", meaning: "from the notice or the cancel to the end" },
  { id: "stalled", title: "stalled", meaning: "hangs, and steps much longer than the others" },
  { id: "lost", title: "lost", meaning: "steps that were done again after a restart" },
  { id: "idle", title: "idle", meaning: "GPUs held and not used" },
  { id: "unknown", title: "unknown", meaning: "jobs that report no steps" },
];

/** The states in which the GPUs of all nodes are. */
export const FLEET_BUCKETS: typeof BUCKETS = [
  { id: "held", title: "held", meaning: "by jobs" },
  { id: "free", title: "free", meaning: "ready for jobs" },
  { id: "drained", title: "drained", meaning: "on nodes that are out of service" },
  { id: "foreign", title: "foreign", meaning: "used by processes that the server did not start" },
  { id: "faulty", title: "faulty", meaning: "with a fault, so the server places no replica there" },
  { id: "unobserved", title: "unobserved", meaning: "no server ran" },
];

/** Return the buckets that have seconds, with their shares of all of them. */
export function sharesOf(seconds: Readonly<Record<string, number>>, buckets = BUCKETS): { id: string; title: string; meaning: string; seconds: number; share: number }[] {
  const rows = buckets.map((bucket) => ({ ...bucket, seconds: seconds[bucket.id] ?? 0 })).filter((row) => row.seconds > 0);
  const total = rows.reduce((sum, row) => sum + row.seconds, 0);
  return rows.map((row) => ({ ...row, share: row.seconds / total }));
}

/** Return the sum of all seconds. */
export function sumOf(seconds: Readonly<Record<string, number>>): number {
  return Object.values(seconds).reduce((sum, value) => sum + value, 0);
}
