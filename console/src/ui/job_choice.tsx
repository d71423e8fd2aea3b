/** A field for one of the two jobs: PROJECT/JOB, with the newest jobs as suggestions. */

import { useId } from "preact/hooks";

import { parseResource } from "../core/format";
import { showHidden } from "../core/hidden";
import { callApi } from "../net/api";
import { project } from "../net/project";
import type { JobList } from "../net/types";
import { TextChoice } from "./text_choice";
import { useResource } from "./resource";

export function JobChoice({ label, value, onChange }: { label: string; value: string; onChange: (name: string) => void }) {
  const id = useId();
  const jobs = useResource(`choice ${project.value}`, (signal) =>
    callApi<JobList>("GET", `/projects/${encodeURIComponent(project.value)}/jobs`, { query: { pageSize: 100 }, signal }));
  const rows = jobs.value.value?.jobs ?? [];
  return (
    <label>
      {label}{" "}
      <TextChoice class="job-name" list={id} placeholder="PROJECT/JOB" value={value} onChoose={onChange} />
      <datalist id={id}>
        {rows.map((row) => <option key={row.uid} value={`${row.project}/${parseResource(row.name)?.job ?? row.uid}`}>{showHidden(row.displayName)}, {row.state}</option>)}
      </datalist>
    </label>
  );
}
