/** What each tab of a job's page gets. */

import type { JobSummary, StoredDocument } from "../../net/types";
import type { Resource } from "../../ui/resource";
import type { JobStore } from "./data";

export interface TabProps {
  store: JobStore;
  summary: JobSummary;
  document: Resource<StoredDocument>;
}
