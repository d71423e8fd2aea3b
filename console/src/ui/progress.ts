/** How far jobs that run are, of a list or of one job; read every 10 s, as often as the server computes it. */

import { callApi } from "../net/api";
import type { JobProgress, ProgressRow } from "../net/types";
import { useRefreshed } from "./resource";

const REFRESH_MS = 10000;
const NONE: ReadonlyMap<string, ProgressRow> = new Map();

/** Return the progress by resource name; empty before the first answer. `project` "-" means all projects. */
export function useProgress(project: string): ReadonlyMap<string, ProgressRow> {
  const answer = useRefreshed(`progress ${project}`, REFRESH_MS, async (signal) => {
    const { rows } = await callApi<JobProgress>("GET", `/projects/${encodeURIComponent(project)}/progress`, { signal });
    return new Map(rows.map((row) => [row.job, row]));
  });
  return answer.value.value ?? NONE;
}
