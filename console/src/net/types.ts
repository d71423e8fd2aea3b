/** The types of the native API: those generated from openapi.json, and those it does not have. */

import type { JobRow, JobSummary } from "./schemas";

export type * from "./schemas";

export type Role = "VIEWER" | "SUBMITTER" | "ADMIN";

/** The answer of `GET /signin`. */
export interface Session {
  name: string;
  role: Role;
  /** A project's id, or "*" for all projects. */
  project: string;
  anonymous: boolean;
  until?: string | null;
  csrf?: string | null;
  version: string;
  pageRevision: string;
}

export interface ProjectOpenJobs {
  id: string;
  open: Record<string, number>;
}

export interface QueueEvent {
  jobs?: JobRow[];
  gone?: string[];
  counts?: Record<string, number>;
}

export interface JobStreamEvent {
  summary: JobSummary;
}

export interface LogStreamEvent {
  total: number;
}
