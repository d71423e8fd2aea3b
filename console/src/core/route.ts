/** Turns an address below /console into a page with its parameters, and back. Pure. */

export type PageName =
  | "queue" | "job" | "compare" | "curves" | "usage" | "alerts" | "study" | "nodes" | "submit" | "settings" | "signin" | "missing";

export interface Route {
  page: PageName;
  /** The parts of the path that name something: `project`, `job`. */
  parameters: Readonly<Record<string, string>>;
  query: URLSearchParams;
}

interface Pattern {
  page: PageName;
  parts: readonly string[];
}

/** A part that begins with a colon is a parameter. */
const PATTERNS: readonly Pattern[] = [
  { page: "queue", parts: [] },
  { page: "job", parts: ["jobs", ":project", ":job"] },
  { page: "compare", parts: ["compare"] },
  { page: "curves", parts: ["curves"] },
  { page: "usage", parts: ["usage"] },
  { page: "alerts", parts: ["alerts"] },
  { page: "study", parts: ["studies", ":project", ":job"] },
  { page: "nodes", parts: ["nodes"] },
  { page: "submit", parts: ["submit"] },
  { page: "settings", parts: ["settings"] },
  { page: "signin", parts: ["signin"] },
];

function matchParts(pattern: Pattern, parts: readonly string[]): Record<string, string> | null {
  if (pattern.parts.length !== parts.length) return null;
  const parameters: Record<string, string> = {};
  for (const [index, expected] of pattern.parts.entries()) {
    const part = parts[index] ?? "";
    if (expected.startsWith(":")) parameters[expected.slice(1)] = part;
    else if (expected !== part) return null;
  }
  return parameters;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Return the page of a path and a query; `missing` for a path that no page has. */
export function parseRoute(path: string, search: string): Route {
  const query = new URLSearchParams(search);
  const parts = path.replace(/^\/console\/?/, "").split("/").filter(Boolean).map(decode);
  for (const pattern of PATTERNS) {
    const parameters = matchParts(pattern, parts);
    if (parameters) return { page: pattern.page, parameters, query };
  }
  return { page: "missing", parameters: {}, query };
}

const TITLES: Readonly<Record<PageName, string>> = {
  queue: "Queue", job: "Job", compare: "Compare", curves: "Curves", usage: "Usage", alerts: "Alerts", study: "Study", nodes: "Nodes", submit: "Submit", settings: "Settings", signin: "Sign in", missing: "No such page",
};

/** Return the title of the browser's tab; one of a job begins with its id. */
export function titleOf(route: Route): string {
  const { job } = route.parameters;
  return `${job ? `${job} – ` : ""}${TITLES[route.page]} – Trainshed`;
}

/** The address of the list of studies: the queue with their kind alone, and those that ended too. */
export const STUDIES_PATH = "/console/?kind=TUNING_JOB&show=all";

/** Return the address of a job's page. */
export function jobPath(project: string, job: string): string {
  return `/console/jobs/${encodeURIComponent(project)}/${encodeURIComponent(job)}`;
}

/** Return the path of a job's resource below /trainshed/v1. */
export function jobResource(project: string, job: string): string {
  return `/projects/${encodeURIComponent(project)}/jobs/${encodeURIComponent(job)}`;
}

/** Return the address of Submit with a job's document, with or without the change that would start the job. */
export function submitPath(project: string, job: string, withChange = false): string {
  return `/console/submit?from=${encodeURIComponent(`${project}/${job}`)}${withChange ? "&change=1" : ""}`;
}

/** Return the address of a study's page. */
export function studyPath(project: string, job: string): string {
  return `/console/studies/${encodeURIComponent(project)}/${encodeURIComponent(job)}`;
}

/** Return `next` if it is a path of the console, else the console's first page. */
export function safeNext(next: string | null): string {
  const isOwn = next !== null && /^\/console(\/|\?|$)/.test(next) && !/[\\\u0000-\u001f]|\/\/|\/\.\.?(\/|$)/.test(next.split(/[?#]/)[0] ?? "");
  return isOwn ? next : "/console/";
}

/** The most jobs whose curves are drawn over each other. */
export const CURVES_MAX = 8;

/** Return the address of the curves of jobs, each as PROJECT/JOB. */
export function curvesPath(names: readonly string[]): string {
  return `/console/curves?${names.map((name) => `job=${encodeURIComponent(name)}`).join("&")}`;
}
