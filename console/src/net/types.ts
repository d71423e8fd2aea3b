/** The types of the native API: those generated from openapi.json, and those it does not have. */

import type { JobRow, JobSummary, SignedInCaller } from "./schemas";

export type * from "./schemas";

/** The answer of `GET /signin`; its project is "*" for all projects. */
export type Session = SignedInCaller;

export interface QueueEvent {
  jobs?: JobRow[];
  gone?: string[];
  counts?: Record<string, number>;
}

export interface JobStreamEvent {
  summary: JobSummary;
}
