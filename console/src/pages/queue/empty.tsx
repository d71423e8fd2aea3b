/** What the queue says when there is no row. */

import { isFiltering, type QueueFilter } from "../../core/queue";
import { setQuery } from "../../core/router";
import { CopyButton } from "../../ui/copy";
import { ALL_PROJECTS, project } from "../../net/project";

/** Return the three lines that submit an example from a shell. */
function exampleLines(): string {
  const id = project.value === ALL_PROJECTS ? "PROJECT" : project.value;
  return [
    `eval "$(trainshed env --shell --url ${location.origin} --project ${id} --token-file FILE)"`,
    "mkdir -p hello && touch hello/__init__.py && echo 'print(\"hello\")' > hello/task.py",
    "trainshed ai-platform jobs submit training hello_1 --package-path hello --module-name hello.task \\\n" +
      `    --runtime-version 2.11 --python-version 3.7 --region us-central1 --staging-bucket gs://${id}-staging --stream-logs`,
  ].join("\n");
}

const CLEAR = { state: null, kind: null, creator: null, label: null, q: null };

export function EmptyQueue({ filter }: { filter: QueueFilter }) {
  if (isFiltering(filter)) {
    return (
      <div class="empty">
        <p>{filter.show === "all" ? "No job" : `No ${filter.show} job`} matches the filter.</p>
        <p>
          <button type="button" onClick={() => setQuery(CLEAR)}>Clear the filter</button>{" "}
          {filter.show === "open" && <button type="button" onClick={() => setQuery({ show: "all", state: null })}>Search ended jobs too</button>}
        </p>
      </div>
    );
  }
  if (filter.show === "ended") return <p class="empty">No job has ended yet.</p>;
  return (
    <div class="empty">
      <p><b>Nothing waits and nothing runs.</b></p>
      <p>These lines submit an example, with {project.value === ALL_PROJECTS && <>the id of your project for <code>PROJECT</code> and </>}the file of your token for <code>FILE</code>. <a href="/console/submit">Submit</a> takes a job's text here.</p>
      <pre>{exampleLines()}</pre>
      <CopyButton text={exampleLines()} what="lines" label="Copy" />
    </div>
  );
}
