/** Counts and describes nodes and their GPUs. Pure. */

import type { FleetPolicy, GpuReading, GpuState, GpuSummary, NodeSummary } from "../net/types";
import { describeSeconds, formatAccelerators, formatBytes, formatCount, formatDuration, formatPlural } from "./format";

export const GPU_STATES: readonly GpuState[] = ["HELD", "FREE", "FOREIGN", "FAULTY"];

/** Signs differ in shape, so that no state is told by its colour alone. */
export const GPU_SIGNS: Readonly<Record<GpuState, string>> = { FREE: "○", HELD: "●", FOREIGN: "▲", FAULTY: "✕" };

export const GPU_MEANINGS: Readonly<Record<GpuState, string>> = {
  FREE: "no job uses it",
  HELD: "a job uses it",
  FOREIGN: "a process that the server did not start uses it",
  FAULTY: "the server places no replica on it",
};

/** What a replica reserves on a node, for a user who reads the word of the settings for the first time. */
export const POLICY_MEANINGS: Readonly<Record<FleetPolicy, string>> = {
  exact: "each replica reserves the CPUs, memory and GPUs of its machine type",
  "best-effort": "each replica reserves GPUs; CPUs and memory are shared",
  emulate: "GPUs are emulated; replicas run on CPUs, and their logs say so",
};

/** Return how many GPUs of the nodes are in each state, with those that jobs hold on machines of other servers. */
export function countGpus(nodes: readonly NodeSummary[]): Record<GpuState, number> {
  const counts: Record<GpuState, number> = { HELD: 0, FREE: 0, FOREIGN: 0, FAULTY: 0 };
  for (const node of nodes) {
    const held = countHeldAsFree(node);
    for (const gpu of node.devices ?? []) counts[gpu.state] += 1;
    counts.FREE -= held;
    counts.HELD += held;
    if (node.devices?.length || typeof node.gpusFree !== "number") continue;
    counts.FREE += node.gpusFree;
    counts.HELD += gpuTotal(node) - node.gpusFree;
  }
  return counts;
}

/** Return how many GPUs that are listed as FREE jobs hold: a server reads HELD on its own machine alone. */
export function countHeldAsFree(node: NodeSummary): number {
  const free = (node.devices ?? []).filter(({ state }) => state === "FREE").length;
  return typeof node.gpusFree === "number" ? Math.max(0, free - node.gpusFree) : 0;
}

/** Return the GPUs of a node by type, and how many are free: "4 × T4, 3 free"; "" without GPUs. */
export function describeGpuCounts(node: NodeSummary): string {
  const counts = formatAccelerators(node.gpus);
  return counts && typeof node.gpusFree === "number" ? `${counts}, ${node.gpusFree || "none"} free` : counts;
}

/** Return where the use of a cluster's GPUs is, which the server does not read; "" for other nodes. */
export function describeUnread(node: NodeSummary): string {
  return node.orderCommand && !node.devices?.length && formatAccelerators(node.gpus) ? "The Usage page of a job shows the use of its GPUs here." : "";
}

function gpuTotal(node: NodeSummary): number {
  return node.devices?.length || Object.values(node.gpus).reduce((sum, count) => sum + count, 0);
}

/** Return "3 nodes, 8 GPUs: 5 held, 2 free, 1 faulty". */
export function describeFleet(nodes: readonly NodeSummary[]): string {
  const counts = countGpus(nodes);
  const total = nodes.reduce((sum, node) => sum + gpuTotal(node), 0);
  const parts = GPU_STATES.filter((state) => counts[state] > 0).map((state) => `${counts[state]} ${state.toLowerCase()}`);
  const out = nodes.filter((node) => node.state !== "READY").length;
  return [
    formatPlural(nodes.length, "node") + (out ? ` (${out} out of service)` : ""),
    ...(total ? [formatPlural(total, "GPU") + (parts.length > 0 ? `: ${parts.join(", ")}` : "")] : []),
  ].join(", ");
}

/** Returns the display name of a job by its resource name, or null. */
type NameOf = (resource: string) => string | null;

/** Return the nodes whose name, engine, region, jobs or GPUs contain the text. */
export function filterNodes(nodes: readonly NodeSummary[], text: string, nameOf: NameOf = () => null): NodeSummary[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [...nodes];
  return nodes.filter((node) => searchTexts(node, nameOf).some((part) => part.toLowerCase().includes(wanted)));
}

function searchTexts(node: NodeSummary, nameOf: NameOf): string[] {
  const jobs = node.jobs ?? [];
  const gpus = (node.devices ?? []).flatMap((gpu) => [gpu.state, gpu.name, gpu.uuid, gpu.type]);
  return [node.name, node.engine, node.region, node.state, ...jobs, ...jobs.map((job) => nameOf(job) ?? ""), ...Object.keys(node.gpus), ...gpus];
}

/** Return the name of a job in a resource name: its last part, for a trial with its study. */
export function jobTitle(name: string): string {
  const match = /([^/]+\/trials\/[^/]+|[^/]+)$/.exec(name);
  return match?.[1] ?? name;
}

/** Return which job uses a GPU, and for how long it has not, where that counts; "" without a job. */
export function gpuNote(gpu: GpuSummary, nameOf: NameOf = () => null): string {
  const idle = isHeldIdle(gpu) ? `idle ${formatDuration(gpu.idleSeconds ?? 0)}` : "";
  return [idle, gpu.job ? nameOf(gpu.job) ?? jobTitle(gpu.job) : ""].filter(Boolean).join(" · ");
}

/** A GPU whose job has run nothing on it for so long counts as held and idle. */
export const IDLE_S = 600;

/** Return whether a job holds a GPU and has not used it for ten minutes. */
export function isHeldIdle(gpu: GpuSummary): boolean {
  return (gpu.idleSeconds ?? 0) >= IDLE_S;
}

/** Return the GPUs of the nodes that jobs hold and do not use. */
export function countHeldIdle(nodes: readonly NodeSummary[]): number {
  return nodes.reduce((sum, node) => sum + (node.devices ?? []).filter(isHeldIdle).length, 0);
}

/** Return what a GPU does: "93 % · 12 GB · 280 W"; what is not measured is left out. */
export function describeReading(reading: GpuReading | null | undefined): string {
  const { use, usedBytes, powerWatts } = reading ?? {};
  return [
    typeof use === "number" ? `${Math.round(use * 100)} %` : "", typeof usedBytes === "number" ? formatBytes(usedBytes) : "", typeof powerWatts === "number" ? `${Math.round(powerWatts)} W` : "",
  ].filter(Boolean).join(" · ");
}

/** Return the SVG path of shares from 0 to 1 in a box; null is a gap. "" if nothing was measured. */
export function sparkPath(shares: readonly (number | null)[], width: number, height: number): string {
  const step = width / Math.max(1, shares.length - 1);
  let isOn = false;
  return shares.map((share, index) => {
    const verb = share === null ? "" : isOn ? "L" : "M";
    isOn = share !== null;
    // a point alone is a short stroke
    const dot = verb === "M" && (shares[index + 1] ?? null) === null ? "h1" : "";
    return share === null ? "" : `${verb}${(index * step).toFixed(1)} ${(height * (1 - Math.min(1, Math.max(0, share)))).toFixed(1)}${dot}`;
  }).join("");
}

/** Return the mean use and the sum of the power of a node's GPUs: "72 % · 2,120 W"; "" if nothing is measured. */
export function describeUse(node: NodeSummary): string {
  const readings = (node.devices ?? []).flatMap(({ reading }) => (reading ? [reading] : []));
  const uses = readings.flatMap(({ use }) => (typeof use === "number" ? [use] : []));
  const watts = readings.flatMap(({ powerWatts }) => (typeof powerWatts === "number" ? [powerWatts] : []));
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  return [uses.length > 0 ? `${Math.round((100 * sum(uses)) / uses.length)} %` : "", watts.length > 0 ? `${formatCount(sum(watts))} W` : ""].filter(Boolean).join(" · ");
}

/** Return "1 hour of notice" for "3600s"; "" without a notice. */
export function describeNotice(notice: string | null | undefined): string {
  const seconds = parseNotice(notice ?? "");
  return seconds === null ? "" : seconds === 0 ? "no notice" : `${describeSeconds(seconds)} of notice`;
}

/** Return whether a GPU is one instance of a divided one (MIG). */
export function isInstance(gpu: GpuSummary): boolean {
  return gpu.uuid.startsWith("MIG-") || /\bMIG\b/.test(gpu.name);
}

/** Return the seconds of a duration such as "120s"; null for another text. */
export function parseNotice(text: string): number | null {
  const match = /^\s*(\d{1,5}(?:\.\d{1,9})?)\s*s?\s*$/.exec(text);
  return match ? Number(match[1]) : null;
}
