/** Commands that show or submit a job outside of the page. Each is exact: it runs as it stands. */

import { quote } from "../../core/format";
import type { StoredDocument } from "../../net/schemas";

export interface Copy {
  readonly title: string;
  readonly text: string;
}

/** The groups of gcloud's commands, and the classes of the Vertex SDK, by collection. */
const GROUPS: Readonly<Record<string, { gcloud: string; sdk: string }>> = {
  customJobs: { gcloud: "ai custom-jobs", sdk: "CustomJob" },
  hyperparameterTuningJobs: { gcloud: "ai hp-tuning-jobs", sdk: "HyperparameterTuningJob" },
};
/** Points gcloud and the SDK at the server, in the shell in which it runs. */
const ENVIRONMENT = 'eval "$(trainshed env --shell)"';
/** Fields that a server sets, which a submission must not have. */
const OUTPUT_FIELDS = new Set(["name", "state", "createTime", "startTime", "endTime", "updateTime", "error", "etag"]);

/** Return the copies of a job by its resource name; `content` null: without those that submit. */
export function copiesOf(name: string, content: StoredDocument | null, origin: string): readonly Copy[] {
  const match = /^projects\/([^/]+)\/(?:locations\/([^/]+)\/([^/]+)|jobs)\/(.+)$/.exec(name);
  if (!match) return [];
  const [, project = "", location, collection, id = ""] = match;
  const group = GROUPS[collection ?? ""];
  const path = location ? `${project}/locations/${location}/${collection}` : `${project}/jobs`;
  const copies = [{ title: "resource name", text: name }];
  if (location === undefined) copies.push({ title: "gcloud command", text: `${ENVIRONMENT}\ngcloud ai-platform jobs describe ${quote(id)} --project=${quote(project)}` });
  if (group && location) copies.push(...vertexCopies(group, project, location, id));
  copies.push({ title: "curl command", text: `${curl(origin)} ${quote(`${origin}/v1/${name}`)}` });
  if (content && content.kind !== "TRIAL") copies.push({ title: "curl command that submits it again", text: submitCommand(origin, path, content) });
  if (content) copies.push({ title: "YAML", text: content.text });
  return copies;
}

function vertexCopies(group: { gcloud: string; sdk: string }, project: string, location: string, id: string): Copy[] {
  const flags = `--region=${quote(location)} --project=${quote(project)}`;
  const name = `projects/${project}/locations/${location}/${group.sdk === "CustomJob" ? "customJobs" : "hyperparameterTuningJobs"}/${id}`;
  return [
    { title: "gcloud command", text: `${ENVIRONMENT}\ngcloud ${group.gcloud} describe ${quote(id)} ${flags}` },
    { title: "Python of the Vertex SDK", text: `# in a shell after: ${ENVIRONMENT}\nfrom google.cloud import aiplatform\n\njob = aiplatform.${group.sdk}.get(${JSON.stringify(name)})\nprint(job.state)` },
  ];
}

function curl(origin: string): string {
  const token = origin.startsWith("https:") || origin.includes("127.0.0.1") || origin.includes("localhost");
  return token ? 'curl -H "Authorization: Bearer $TRAINSHED_TOKEN"' : "curl";
}

function submitCommand(origin: string, path: string, content: StoredDocument): string {
  const fields = Object.entries(content.document).filter(([field]) => !OUTPUT_FIELDS.has(field));
  const body = JSON.stringify(Object.fromEntries(fields), null, 2);
  return `${curl(origin)} -H "Content-Type: application/json" --data ${quote(body)} ${quote(`${origin}/v1/projects/${path}`)}`;
}
