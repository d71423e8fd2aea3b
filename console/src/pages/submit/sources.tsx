/** Where a text comes from besides typing: a file, another job, an example. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

import { jobResource } from "../../core/route";
import { callApi } from "../../net/api";
import type { StoredDocument } from "../../net/types";
import { useAttempt } from "../../ui/attempt";
import { NamedJobLink } from "../../ui/job_link";
import { announce, sentence } from "../../ui/notice";

/** The server refuses longer texts. */
const FILE_BYTES_MAX = 1 << 20;

export interface LoadedText {
  text: string;
  location: string | null;
  /** What was loaded, for a message. */
  about: ComponentChildren;
  /** The text before the change that would start the job; null without a change. */
  changedFrom?: string | null;
}

/** Read another job's text; `withChange` takes the text with the change that would start it. Throws ApiError. */
export async function loadJob(project: string, job: string, withChange: boolean): Promise<LoadedText> {
  const stored = await callApi<StoredDocument>("GET", `${jobResource(project, job)}/document`);
  const isChanged = withChange && Boolean(stored.changeSentence);
  const change = isChanged ? ` with a change: it ${stored.changeSentence}.` : ".";
  const lacks = withChange && !isChanged ? " The job has no change to offer any more." : "";
  const stays = isChanged ? " Submit makes a new job; the one that waits stays until you cancel it." : "";
  return {
    text: isChanged ? stored.changedText ?? stored.text : stored.text,
    location: (isChanged ? stored.changedLocation : null) ?? stored.location ?? null,
    about: <>The text of <NamedJobLink project={project} job={job} name={nameOf(stored, job)} />{change}{stays}{lacks}</>,
    changedFrom: isChanged ? stored.text : null,
  };
}

/** Return the display name of a stored job; its id if it has none. */
function nameOf(stored: StoredDocument, job: string): string {
  const name = (stored.document as { displayName?: unknown }).displayName;
  return typeof name === "string" && name ? name : job;
}

async function readFile(file: File): Promise<LoadedText | null> {
  if (file.size > FILE_BYTES_MAX) {
    announce("error", `${file.name} has ${file.size} bytes; the text of a job has at most ${FILE_BYTES_MAX}.`);
    return null;
  }
  return { text: await file.text(), location: null, about: `The text of ${file.name}.` };
}

const EXAMPLE = `# A job that prints a line on one CPU machine: replace the command, and the image if you need another.
displayName: hello
jobSpec:
  workerPoolSpecs:
    - replicaCount: 1
      machineSpec:
        machineType: n1-standard-4
      containerSpec:
        imageUri: us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.2-4.py310:latest
        command: [python, -c, print("hello")]
`;

export function Sources({ project, onLoad }: { project: string; onLoad: (loaded: LoadedText) => void }) {
  return (
    <div class="tools">
      <label class="file">
        open a file
        <input type="file" class="hidden-text" accept=".yaml,.yml,.json,.txt" onChange={(event) => {
          const input = event.currentTarget;
          const file = input.files?.[0];
          if (file) void readFile(file).then((loaded) => (loaded && onLoad(loaded), (input.value = "")));
        }} />
      </label>
      <FromJob project={project} onLoad={onLoad} />
      <button type="button" onClick={() => onLoad({ text: EXAMPLE, location: null, about: "An example." })}>an example</button>
    </div>
  );
}

function FromJob({ project, onLoad }: { project: string; onLoad: (loaded: LoadedText) => void }) {
  const name = useSignal("");
  const { problem, run } = useAttempt();
  const load = (event: Event): Promise<boolean> => {
    event.preventDefault();
    const parts = name.value.trim().split("/");
    const job = parts.pop() ?? "";
    return run(async () => onLoad(await loadJob(parts.pop() ?? project, job, false)));
  };
  return (
    <form class="inline" onSubmit={(event) => void load(event)}>
      <input aria-label="From a job: its id, or PROJECT/ID" placeholder="job id" value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
      <button type="submit" disabled={name.value.trim() === ""}>copy the job</button>
      {problem.value && <span class="refusal" role="alert">{sentence(problem.value.message)}</span>}
    </form>
  );
}
