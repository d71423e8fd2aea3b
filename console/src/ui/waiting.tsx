/** What holds a waiting job back, and the change that would start it. */

import { showHidden } from "../core/hidden";
import { jobPath, submitPath } from "../core/route";
import { maySubmit } from "../net/session";
import type { Waiting } from "../net/types";
import { JobLink } from "./job_link";

interface WaitingFactsProps {
  project: string;
  job: string;
  waiting: Waiting;
}

export function WaitingFacts({ project, job, waiting }: WaitingFactsProps) {
  const names = waiting.blockers ?? [];
  return (
    <>
      {waiting.change && (
        <p class="change">
          It {showHidden(waiting.change.text)}.{" "}
          {maySubmit() && <a class="button primary" href={submitPath(project, job, true)}>Try it</a>}
        </p>
      )}
      {names.length > 0 && (
        <p>
          Blocked by{" "}
          {names.map((name, index) => <span key={name}>{index > 0 && ", "}<Blocker project={project} name={name} areNodes={waiting.reason === "DRAINED"} /></span>)}
        </p>
      )}
    </>
  );
}

/** A blocker is the resource name of a job, its id in this project, a node, or a sentence. */
function Blocker({ project, name, areNodes }: { project: string; name: string; areNodes: boolean }) {
  if (!/^[\w.-]+$/.test(name)) return <JobLink name={name} />;
  return <a href={areNodes ? "/console/nodes" : jobPath(project, name)}>{name}</a>;
}
