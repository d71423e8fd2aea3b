// What each replica was told: its command, environment, limits and hosts, read from the plan in a
// job's manifest.  The plan is the same for every engine; other parts are shown as texts.

import { quote } from "../../core/format";
import { flatten } from "../compare/differences";

/** The parts of a manifest, as the route returns them. */
interface Part {
  readonly name: string;
  readonly text: string;
}

export interface PlannedReplica {
  readonly task: string;
  /** Environment variables by name. */
  readonly variables: ReadonlyMap<string, string>;
  /** Command, folder, host name, limits, GPUs and hosts by name. */
  readonly settings: ReadonlyMap<string, string>;
}

const PLAN = "plan.json";
/** Fields of a replica that are shown elsewhere. */
const ELSEWHERE = new Set(["task_name", "env", "argv", "hosts", "role", "index"]);

type Json = Readonly<Record<string, unknown>>;

/** Return the replicas of the plan; none if the manifest has no plan that can be read. */
export function readReplicas(parts: readonly Part[]): readonly PlannedReplica[] {
  const plan = parseObject(parts.find((part) => part.name === PLAN)?.text);
  const started = byTask(plan.replicas);
  return [...byTask(objectOf(plan.plan).replicas)].map(([task, planned]) =>
    readReplica(task, planned, started.get(task) ?? {}),
  );
}

/** Return the parts that are not read into replicas: scripts, objects, command lines. */
export function otherParts(parts: readonly Part[]): readonly Part[] {
  return parts.filter((part) => part.name !== PLAN);
}

function readReplica(task: string, planned: Json, started: Json): PlannedReplica {
  const variables = new Map<string, string>();
  for (const [name, value] of entriesOf(planned.env)) variables.set(name, String(value));
  for (const [name, value] of entriesOf(started.env)) variables.set(name, String(value));
  return { task, variables, settings: settingsOf(planned, started) };
}

function settingsOf(planned: Json, started: Json): Map<string, string> {
  const settings = new Map<string, string>();
  if (Array.isArray(planned.argv)) settings.set("command", planned.argv.map((argument) => quote(String(argument))).join(" "));
  for (const source of [planned, started]) {
    const fields = entriesOf(source).filter(([name]) => !ELSEWHERE.has(name));
    for (const [name, text] of flatten(Object.fromEntries(fields))) settings.set(name, text);
  }
  for (const host of listOf(started.hosts)) {
    if (Array.isArray(host)) addHost(settings, String(host[0]), String(host[1]));
  }
  return settings;
}

function addHost(settings: Map<string, string>, address: string, name: string): void {
  const key = `host ${address}`;
  const before = settings.get(key);
  settings.set(key, before ? `${before} ${name}` : name);
}

/** Return variables as lines that a POSIX shell reads. */
export function exportLines(variables: ReadonlyMap<string, string>): string {
  const names = [...variables].filter(([name]) => /^[A-Za-z_]\w*$/.test(name));
  return names.map(([name, value]) => `export ${name}=${quote(value)}`).join("\n");
}

function byTask(value: unknown): Map<string, Json> {
  const replicas = listOf(value).map(objectOf);
  return new Map(replicas.map((replica) => [String(replica.task_name ?? ""), replica]));
}

function parseObject(text: string | undefined): Json {
  try {
    return objectOf(JSON.parse(text ?? "{}"));
  } catch {
    return {};
  }
}

function objectOf(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function entriesOf(value: unknown): [string, unknown][] {
  return Object.entries(objectOf(value));
}
