/** What each tab of a job's page gets. */

import type { JobSummary, StoredDocument } from "../../net/types";
import type { Resource } from "../../ui/resource";
import type { JobStore } from "./data";

export interface TabProps {
  store: JobStore;
  summary: JobSummary;
  document: Resource<StoredDocument>;
}

/** Return whether a job is a study, whose figures are those of its trials; `content` null before it is read. */
export function isStudy(summary: JobSummary, content: StoredDocument | null): boolean {
  const input = content?.document.trainingInput as { hyperparameters?: unknown } | undefined;
  return summary.name.includes("/hyperparameterTuningJobs/") || content?.kind === "TUNING_JOB" || input?.hyperparameters !== undefined;
}
