/** A link to a job that the server names by its resource name: shows the display name, links by the id. */

import { jobTitle } from "../core/fleet";
import { parseResource } from "../core/format";
import { showHidden } from "../core/hidden";
import { jobPath } from "../core/route";
import { displayNameOf } from "../net/job_names";

/** Trials of ml v1 are shown with their study; a text that names no job is shown as it is. */
export function JobLink({ name }: { name: string }) {
  const trial = /^projects\/([^/]+)\/jobs\/([^/]+)\/trials\/([^/]+)$/.exec(name);
  if (trial) {
    const query = `?tab=log&trial=${encodeURIComponent(trial[3] ?? "")}`;
    return <a href={jobPath(trial[1] ?? "", trial[2] ?? "") + query}>{jobTitle(name)}</a>;
  }
  const parts = parseResource(name);
  if (!parts) return <span>{showHidden(name)}</span>;
  return <a href={jobPath(parts.project, parts.job)} title={parts.job}>{displayNameOf(name) ?? showHidden(parts.job)}</a>;
}
