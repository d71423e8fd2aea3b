/** What surrounds every page: navigation, project, state of the connection, user. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

import { now } from "../core/clock";
import { formatDuration } from "../core/format";
import { showHidden } from "../core/hidden";
import { STUDIES_PATH } from "../core/route";
import { navigate, route } from "../core/router";
import { outage } from "../net/connection";
import { ALL_PROJECTS, chooseProject, loadProjects, project, projects } from "../net/project";
import { roleOf, session } from "../net/session";
import { liveness } from "../net/stream";
import { alerts, useAlertReader } from "./alerts";
import { KeysHelp, openKeysHelp, useKeys } from "./keys";
import { Menu } from "./menu";
import { Notice, sentence, Toasts } from "./notice";
import { leave } from "./sign_out";
import { ThemeChoice } from "./theme";

const PAGES = [
  { page: "queue", path: "/console/", title: "Queue", key: "g q" },
  { page: "studies", path: STUDIES_PATH, title: "Studies", key: "g s" },
  { page: "nodes", path: "/console/nodes", title: "Nodes", key: "g n" },
  { page: "usage", path: "/console/usage", title: "Usage", key: "g u" },
  { page: "alerts", path: "/console/alerts", title: "Alerts", key: "g a" },
  { page: "submit", path: "/console/submit", title: "Submit", key: "g b" },
] as const;

/** Return the name in the navigation of the present address. */
function currentPage(): string {
  const { page, query } = route.value;
  if (page === "study") return "studies";
  if (page === "job" || page === "compare" || page === "curves") return "queue";
  return page === "queue" && query.get("kind") === "TUNING_JOB" ? "studies" : page;
}

const KEYS = [
  { keys: "?", label: "These keys", run: openKeysHelp },
  ...PAGES.map(({ key, title, path }) => ({ keys: key, label: `Go to ${title}`, run: () => navigate(path) })),
];

export function Frame({ children }: { children: ComponentChildren }) {
  useKeys("Everywhere", KEYS);
  return (
    <div class={outage.value ? "frame away" : "frame"}>
      <a class="skip" href="#main" onClick={focusMain}>Skip to the content</a>
      <header class="bar">
        <a class="brand" href="/console/">Trainshed</a>
        <nav aria-label="Pages">
          {PAGES.map(({ page, path, title }) => (
            <a key={page} href={path} aria-current={currentPage() === page ? "page" : undefined}>{title}{page === "alerts" && <AlertCount />}</a>
          ))}
        </nav>
        <ProjectSelector />
        <Connection />
        <UserMenu />
      </header>
      <Banners />
      {children}
      <Toasts />
      <KeysHelp />
    </div>
  );
}

function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** The number of alerts; a failed call shows none, and the page Alerts says why. */
function AlertCount() {
  useAlertReader();
  const count = alerts.value?.length ?? 0;
  if (count === 0) return null;
  return <span class="alert-count num"><span aria-hidden="true">▲</span> {count}</span>;
}

/** The list of projects is read after what the page shows. */
const PROJECTS_MS = 300;

function ProjectSelector() {
  const isFixed = session.value !== null && session.value.project !== "*";
  useEffect(() => {
    if (!session.value) return;
    const timer = setTimeout(() => loadProjects().catch(() => undefined), PROJECTS_MS);
    return () => clearTimeout(timer);
  }, [session.value]);
  if (isFixed) return <span class="project">project <b>{project.value}</b></span>;
  const ids = new Set(projects.value.map(({ id }) => id));
  if (project.value !== ALL_PROJECTS) ids.add(project.value);
  return (
    <label class="project">
      <span>project</span>
      <select value={project.value} onChange={(event) => chooseProject(event.currentTarget.value)}>
        <option value={ALL_PROJECTS}>all</option>
        {[...ids].sort().map((id) => <option key={id} value={id}>{id}</option>)}
      </select>
    </label>
  );
}

const LIVENESS = {
  idle: { sign: "", text: "", title: "" },
  connecting: { sign: "○", text: "connecting", title: "The page opens its stream of changes." },
  live: { sign: "●", text: "live", title: "Changes appear at once." },
  polling: { sign: "◐", text: "every 5 s", title: "The server has no stream left; the page asks every 5 s." },
  reconnecting: { sign: "○", text: "reconnecting", title: "The stream of changes ended; the page opens it again." },
  paused: { sign: "◌", text: "paused", title: "A hidden page gets no changes." },
} as const;

function Connection() {
  const state = outage.value ? LIVENESS.reconnecting : LIVENESS[liveness.value];
  const since = outage.value ? ` ${formatDuration((now.value - outage.value.since) / 1000)}` : "";
  return (
    <span class={`connection ${outage.value ? "reconnecting" : liveness.value}`} title={state.title}>
      <span aria-hidden="true">{state.sign}</span> {state.text}{since}
    </span>
  );
}

function UserMenu() {
  const user = session.value;
  const name = user ? (user.anonymous ? "anonymous" : showHidden(user.name)) : "not signed in";
  return (
    <Menu label={name} title="User, theme and settings">
      {user && <p class="about">{roleOf(user)}</p>}
      <p class="about">Theme</p>
      <ThemeChoice />
      <a href="/console/settings">Settings</a>
      <button type="button" data-close onClick={openKeysHelp}>Keys <kbd>?</kbd></button>
      {user && !user.anonymous && <button type="button" data-close onClick={() => void leave(false)}>Sign out</button>}
      {user && !user.anonymous && <button type="button" data-close onClick={() => void leave(true)}>Sign out everywhere</button>}
      {user && <p class="about">Trainshed {user.version}</p>}
    </Menu>
  );
}

/** The revision of the page that this browser has loaded. */
const ownRevision = document.querySelector<HTMLMetaElement>("meta[name=trainshed-revision]")?.content ?? "";

function Banners() {
  const revision = session.value?.pageRevision;
  const isOld = Boolean(revision) && revision !== ownRevision;
  return (
    <>
      {outage.value && (
        <Notice tone="warning">
          {outage.value.message
            ? sentence(outage.value.message)
            : <>The server has not answered for <span role="timer">{formatDuration((now.value - outage.value.since) / 1000)}</span>.</>}{" "}
          The page shows what it last got and tries again.
        </Notice>
      )}
      {isOld && (
        <Notice tone="info">
          The server has a newer version of this page. <button type="button" class="link" onClick={() => location.reload()}>Load it</button>
        </Notice>
      )}
    </>
  );
}
