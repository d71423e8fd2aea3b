/** The queue: what waits and why, what runs, what ended. */

import type { Route } from "../../core/route";
import { callApi } from "../../net/api";
import { project } from "../../net/project";
import type { JobList } from "../../net/types";
import { ErrorNotice } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { jobPath } from "../../core/route";

export default function QueuePage({ route }: { route: Route }) {
  const jobs = useResource(project.value, (signal) => callApi<JobList>("GET", `/projects/${project.value}/jobs`, { signal }));
  return (
    <main id="main" tabIndex={-1}>
      <h1>Queue {route.query.get("q")}</h1>
      {jobs.error.value && <ErrorNotice error={jobs.error.value} />}
      <ul>{jobs.value.value?.jobs.map((row) => <li key={row.uid}><a href={jobPath(row.project, row.uid)}>{row.displayName}</a> {row.state}</li>)}</ul>
    </main>
  );
}
