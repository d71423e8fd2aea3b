/** How far jobs that run are, of a list or of one job; read every 10 s, as often as the server computes it. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { callApi } from "../net/api";
import type { JobProgress, ProgressRow } from "../net/types";
import { useRefreshed } from "./resource";

const REFRESH_MS = 10000;
const NONE: ReadonlyMap<string, ProgressRow> = new Map();

/**
 * Return the progress by resource name; empty before the first answer. `project` "-" means all projects; with `job`, its id, only that job is read.
 * `afterMs`: a page reads first what it shows first.
 */
export function useProgress(project: string, { afterMs = 0, job = null }: { afterMs?: number; job?: string | null } = {}): ReadonlyMap<string, ProgressRow> {
  const isDue = useSignal(afterMs === 0);
  useEffect(() => {
    const timer = setTimeout(() => (isDue.value = true), afterMs);
    return () => clearTimeout(timer);
  }, [afterMs]);
  const answer = useRefreshed(`progress ${project} ${job} ${isDue.value}`, isDue.value ? REFRESH_MS : 0, async (signal) => {
    if (!isDue.peek()) return NONE;
    const { rows } = await callApi<JobProgress>("GET", `/projects/${encodeURIComponent(project)}/progress`, { query: { job }, signal });
    return new Map(rows.map((row) => [row.job, row]));
  });
  return answer.value.value ?? NONE;
}
