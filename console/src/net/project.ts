/** The project that lists show and that Submit uses: of the address, else the last chosen one. */

import { computed, signal } from "@preact/signals";

import { navigate, route, setQuery } from "../core/router";
import { callApi } from "./api";
import { session } from "./session";
import { readChoice, writeChoice } from "./settings";
import type { Projects, ProjectSummary } from "./types";

/** The value that stands for all projects of the user. */
export const ALL_PROJECTS = "-";

const chosen = signal(readChoice("project") ?? ALL_PROJECTS);

/** The projects of the user with their numbers of open jobs; empty before they are read. */
export const projects = signal<readonly ProjectSummary[]>([]);

/** A project's id, or "-" for all projects of the user. */
export const project = computed(() => {
  const own = session.value?.project;
  if (own && own !== "*") return own;
  return route.value.parameters.project ?? route.value.query.get("project") ?? chosen.value;
});

export function chooseProject(id: string): void {
  chosen.value = id;
  writeChoice("project", id === ALL_PROJECTS ? null : id);
  // The page of one job belongs to its project, so another project means its queue.
  if (route.value.parameters.project !== undefined) navigate("/console/");
  setQuery({ project: id === ALL_PROJECTS ? null : id });
}

/** Read the projects of the user. Throws ApiError. */
export async function loadProjects(): Promise<void> {
  const answer = await callApi<Projects>("GET", "/projects");
  projects.value = answer.projects;
}
