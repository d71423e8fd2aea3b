/** A link to a job that the server names by its resource name: shows the display name, links by the id. */

import { jobTitle } from "../core/fleet";
import { parseResource, shorten } from "../core/format";
import { showHidden } from "../core/hidden";
import { jobPath } from "../core/route";
import { displayNameOf } from "../net/job_names";

/** A link to a job whose display name is known. */
export function NamedJobLink({ project, job, name }: { project: string; job: string; name: string }) {
  return <a href={jobPath(project, job)} title={job}>{shorten(showHidden(name), 80)}</a>;
}

/** Trials of ml v1 are shown with their study; a text that names no job is shown as it is. */
export function JobLink({ name }: { name: string }) {
  const trial = /^projects\/([^/]+)\/jobs\/([^/]+)\/trials\/([^/]+)$/.exec(name);
  if (trial) {
    const query = `?tab=log&trial=${encodeURIComponent(trial[3] ?? "")}`;
    return <a href={jobPath(trial[1] ?? "", trial[2] ?? "") + query}>{jobTitle(name)}</a>;
  }
  const parts = parseResource(name);
  if (!parts) return <span>{showHidden(name)}</span>;
  return <NamedJobLink project={parts.project} job={parts.job} name={displayNameOf(name) ?? parts.job} />;
}
