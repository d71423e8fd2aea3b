/** Filters the audit log. Pure. */

import type { AuditedCall } from "../net/types";

/** Seconds by the words of a choice. */
export const SINCE: Readonly<Record<string, number>> = { hour: 3600, day: 86400, "7 days": 604800, "30 days": 2592000 };

/** Return whether an entry has the text in one of its fields, and is a refusal if only those count. */
export function matchesEntry(entry: AuditedCall, text: string, onlyRefused: boolean): boolean {
  if (onlyRefused && entry.status === "OK") return false;
  const needle = text.trim().toLowerCase();
  const fields = [entry.caller, entry.credential, entry.address, entry.method, entry.resource, entry.project, entry.status];
  return needle === "" || fields.some((field) => field.toLowerCase().includes(needle));
}

/** Return the call in a word: the verb of HTTP, or the last part of a method's name. */
export function callName(entry: Pick<AuditedCall, "method">): string {
  const [verb = "", path] = entry.method.split(" ");
  return path === undefined ? verb.split(/[./]/).at(-1) ?? verb : verb;
}

/** Return the path of a call without its API's version, and without the project and the region that all of a project share. */
export function resourceOf({ resource, project }: Pick<AuditedCall, "resource" | "project">): string {
  const path = resource.replace(/^(\/trainshed)?\/v\d\w*\//, "");
  const inProject = project && path.startsWith(`projects/${project}/`) ? path.slice(`projects/${project}/`.length) : path;
  return inProject.replace(/^locations\/[^/]+\//, "");
}
