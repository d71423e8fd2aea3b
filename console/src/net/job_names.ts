/** The display names of jobs that an answer of the server names by their resource names alone. */

import { signal } from "@preact/signals";

import { parseResource } from "../core/format";
import { showHidden } from "../core/hidden";
import { KIND_NAMES } from "../core/queue";
import { jobResource } from "../core/route";
import { ApiError, callApi } from "./api";
import { recoveries } from "./connection";
import type { JobRow } from "./types";

/** The jobs that hold machines or wait in an engine's queue: those that others wait for. */
const HOLDING_STATES = ["ENQUEUED", "PREPARING", "RUNNING", "RESTARTING", "CANCELLING"];
const ROWS_MAX = 500;
/** The most jobs of one reading that the list lacks and that are read one by one. */
const SINGLE_MAX = 10;
/** The most names that a page keeps. */
const NAMES_MAX = 10000;

const names = signal<ReadonlyMap<string, string>>(new Map());
const requested = new Set<string>();
let waiting: string[] = [];

/** Return the display name of a job, read once, its hidden characters visible; null without one, and for a trial. */
export function displayNameOf(resource: string): string | null {
  if (resource.includes("/trials/")) return null;
  const name = names.value.get(resource);
  if (name === undefined && !requested.has(resource)) request(resource);
  return name || null;
}

/** Replace the resource names of jobs in a sentence by their display names. */
export function nameJobs(text: string): string {
  return text.replace(/projects\/[^\s,;/]+\/(?:locations\/[^\s,;/]+\/)?(?:jobs|customJobs|trainingPipelines|hyperparameterTuningJobs)\/[\w-]+/g,
    (resource) => displayNameOf(resource) ?? resource);
}

/** One reading serves all names that components ask for in the same moment. */
function request(resource: string): void {
  requested.add(resource);
  if (waiting.length === 0) setTimeout(() => void readNames().catch(forgiveApiErrors), 0);
  waiting.push(resource);
}

async function readNames(): Promise<void> {
  const wanted = waiting;
  waiting = [];
  const query = { state: HOLDING_STATES, kind: Object.keys(KIND_NAMES), pageSize: ROWS_MAX };
  const { jobs } = await callApi<{ jobs: readonly JobRow[] }>("GET", "/projects/-/jobs", { query });
  keepNames(jobs);
  const missing = wanted.filter((resource) => !names.peek().has(resource)).slice(0, SINGLE_MAX);
  await Promise.all(missing.map(readName));
}

async function readName(resource: string): Promise<void> {
  const parts = parseResource(resource);
  if (!parts) return;
  const job = await callApi<{ displayName?: string | null }>("GET", jobResource(parts.project, parts.job));
  keepNames([{ name: resource, displayName: job.displayName }]);
}

function keepNames(jobs: ReadonlyArray<{ name: string; displayName?: string | null | undefined }>): void {
  const named = jobs.map((job): [string, string] => [job.name, showHidden(job.displayName ?? "")]);
  names.value = new Map([...names.peek(), ...named].slice(-NAMES_MAX));
}

/** Without its name a job is shown by its id. */
function forgiveApiErrors(error: unknown): void {
  if (!(error instanceof ApiError)) throw error;
}

recoveries.subscribe(() => requested.clear());
