/** Filters, sorts and describes the rows of the queue. Pure. */

import { writeCsv } from "./csv";
import type { JobRow } from "../net/types";
import { parseResource, parseTime } from "./format";

export type Show = "open" | "ended" | "all";

export interface QueueFilter {
  /** Jobs that have not ended, that have ended, or both. */
  show: Show;
  states: readonly string[];
  kinds: readonly string[];
  creator: string;
  /** KEY or KEY:VALUE; only the server can filter by it. */
  label: string;
  /** A part of a name or id. */
  text: string;
  sort: string;
  descending: boolean;
}

export const WAITING_STATES: readonly string[] = ["QUEUED", "ENQUEUED"];
export const OPEN_STATES: readonly string[] = [...WAITING_STATES, "PREPARING", "RUNNING", "RESTARTING", "CANCELLING"];
export const ENDED_STATES: readonly string[] = ["SUCCEEDED", "FAILED", "CANCELLED"];

export const KIND_NAMES: Readonly<Record<string, string>> = {
  AI_PLATFORM_JOB: "AI Platform",
  CUSTOM_JOB: "custom",
  TUNING_JOB: "study",
  TRAINING_PIPELINE: "pipeline",
  TRIAL: "trial",
};

/** What a reason means in a few words; the explanation of a job has the whole sentence. */
export const REASON_TEXTS: Readonly<Record<string, string>> = {
  NOT_LOOKED_AT: "not considered yet",
  QUOTA: "the quota is in use",
  CAPACITY: "fitting nodes are in use",
  RESERVED: "would delay an older job",
  BEHIND_QUEUE: "other jobs are before it",
  DRAINED: "fitting nodes are drained",
  NO_SUCH_NODE: "no node can run it",
  ENGINE_QUEUE: "in its engine's queue",
  ENGINE_FULL: "its engine is full",
  ENGINE_AWAY: "its engine does not answer",
  HELD: "held at its engine",
  PAUSED: "paused by its study",
  NOT_STARTING: "replicas do not start",
  IMAGE: "an image cannot be read",
  VOLUME: "a volume cannot be attached",
};

export function isWaiting(row: { state: string }): boolean {
  return WAITING_STATES.includes(row.state);
}

/** Return whether the server holds a job that a person has stopped in its cluster; a job that its engine holds is ENQUEUED. */
export function isHeld(row: { state: string; waiting?: { reason: string } | null }): boolean {
  return row.state === "QUEUED" && row.waiting?.reason === "HELD";
}

/** Return whether a job, or the state of one, can change no more. */
export function isEnded(row: { state: string }): boolean {
  return ENDED_STATES.includes(row.state);
}

/** Return the job's id in addresses and routes: the last part of its name; of a trial of AI Platform its uid. */
export function jobIdOf(row: { name: string; uid: string }): string {
  const isTrial = /^projects\/[^/]+\/jobs\/[^/]+\/trials\//.test(row.name);
  return isTrial ? row.uid : parseResource(row.name)?.job ?? row.uid;
}

/** Return the filter of an address's query. */
export function readFilter(query: URLSearchParams): QueueFilter {
  const show = query.get("show");
  const sort = query.get("sort") ?? "-created";
  return {
    show: show === "ended" || show === "all" ? show : "open",
    states: query.getAll("state"),
    kinds: query.getAll("kind"),
    creator: query.get("creator") ?? "",
    label: query.get("label") ?? "",
    text: query.get("q") ?? "",
    sort: sort.replace(/^-/, ""),
    descending: sort.startsWith("-"),
  };
}

/** Return whether the filter leaves out jobs that `show` alone would list. */
export function isFiltering(filter: QueueFilter): boolean {
  return filter.states.length + filter.kinds.length > 0 || Boolean(filter.creator || filter.label || filter.text);
}

/** Return a predicate of a row; it ignores the label, which only the server knows. */
export function rowMatcher(filter: QueueFilter): (row: JobRow) => boolean {
  const text = filter.text.trim().toLowerCase();
  const states = new Set(filter.states);
  const kinds = new Set(filter.kinds);
  return (row) =>
    (filter.show === "all" || isEnded(row) === (filter.show === "ended")) &&
    (states.size === 0 || states.has(row.state)) &&
    (kinds.size === 0 || kinds.has(row.kind)) &&
    (filter.creator === "" || row.creator === filter.creator) &&
    (text === "" || hasText(row, text));
}

function hasText(row: JobRow, text: string): boolean {
  return row.displayName.toLowerCase().includes(text) || row.uid.includes(text) || jobIdOf(row).toLowerCase().includes(text);
}

/** Return the number of accelerators of all replicas together. */
function gpuCount(row: JobRow): number {
  return Object.values(row.gpus).reduce((sum, count) => sum + count, 0);
}

/** When the time in the column WAITED/RAN began: the creation of a waiting job, else its start. */
export function spanStart(row: JobRow): string {
  return isWaiting(row) ? row.createTime : row.startTime ?? row.createTime;
}

function spanLength(row: JobRow, nowMs: number): number {
  return (parseTime(row.endTime) ?? nowMs) - (parseTime(spanStart(row)) ?? nowMs);
}

type SortKey = string | number;

/** The amount of money that each job has cost so far, by resource name. */
export type Amounts = ReadonlyMap<string, number>;
const NO_AMOUNTS: Amounts = new Map();

const SORT_KEYS: Readonly<Record<string, (row: JobRow, nowMs: number, amounts: Amounts) => SortKey>> = {
  name: (row) => row.displayName.toLowerCase(),
  project: (row) => row.project,
  kind: (row) => row.kind,
  state: (row) => OPEN_STATES.concat(ENDED_STATES).indexOf(row.state),
  why: (row) => row.reason ?? row.node ?? "",
  cost: (row, _, amounts) => amounts.get(row.name) ?? -1,
  gpus: gpuCount,
  replicas: (row) => row.replicas,
  time: spanLength,
  creator: (row) => row.creator,
  created: (row) => row.createTime,
};

/** Return the uids of the rows that match, in the order of the filter; equal ones newest first. */
export function orderRows(rows: Iterable<JobRow>, filter: QueueFilter, nowMs: number, amounts = NO_AMOUNTS): string[] {
  const matches = rowMatcher(filter);
  const keyOf = SORT_KEYS[filter.sort] ?? ((row: JobRow): SortKey => row.createTime);
  const keyed: Array<{ uid: string; key: SortKey; created: string }> = [];
  for (const row of rows) {
    if (matches(row)) keyed.push({ uid: row.uid, key: keyOf(row, nowMs, amounts), created: row.createTime });
  }
  const sign = filter.descending ? -1 : 1;
  keyed.sort((left, right) => {
    if (left.key !== right.key) return left.key < right.key ? -sign : sign;
    return left.created < right.created ? 1 : left.created > right.created ? -1 : 0;
  });
  return keyed.map((item) => item.uid);
}

/** Return how many uids are in one of two lists and not in the other. */
export function countDifferences(left: readonly string[], right: readonly string[]): number {
  const rightSet = new Set(right);
  const common = left.reduce((sum, uid) => sum + (rightSet.has(uid) ? 1 : 0), 0);
  return left.length + right.length - 2 * common;
}

/** Return the rows as CSV. */
export function toCsv(rows: readonly JobRow[]): string {
  const head = ["name", "project", "kind", "state", "reason", "accelerators", "replicas", "creator", "created", "started", "ended", "uid"];
  const lines = rows.map((row) => [
    row.displayName, row.project, row.kind, row.state, row.reason ?? "",
    Object.entries(row.gpus).map(([type, count]) => `${count} ${type}`).join(" "),
    String(row.replicas), row.creator, row.createTime, row.startTime ?? "", row.endTime ?? "", row.uid,
  ]);
  return writeCsv([head, ...lines]);
}
