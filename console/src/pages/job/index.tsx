/** The page of a job: its state and why, its replicas, its story, and its log. */

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useMemo } from "preact/hooks";

import { isEnded } from "../../core/queue";
import type { Route } from "../../core/route";
import { setQuery } from "../../core/router";
import { callApi } from "../../net/api";
import { readChoice, writeChoice } from "../../net/settings";
import type { StoredDocument } from "../../net/types";
import { lazy } from "../../ui/lazy";
import { ErrorNotice, Notice } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { readEndEarly } from "../log/port";
import { LogView } from "../log/view";
import { useJob, type JobStore } from "./data";
import { Environment } from "./environment";
import { Explanation } from "./explanation";
import { Failure, useFailure } from "./failure";
import { Header } from "./header";
import MetricsTab from "./metrics";
import { Roles } from "./roles";
import { Spec } from "./spec";
import { Story } from "./story";
import type { TabProps } from "./tab";
import UsageTab from "./usage";
import { WaitingReason } from "./waiting";

const GoodputTab = lazy(() => import("./goodput"));

const TABS: readonly { id: string; title: string; view: ComponentType<TabProps> }[] = [
  { id: "log", title: "Log", view: LogTab },
  { id: "metrics", title: "Metrics", view: MetricsTab },
  { id: "usage", title: "Usage", view: UsageTab },
  { id: "goodput", title: "Goodput", view: GoodputTab },
  { id: "environment", title: "Environment", view: Environment },
  { id: "spec", title: "Spec", view: Spec },
];

/** A user who reads logs may hide the replicas and the story above them. */
const areDetailsShown = signal(readChoice("job-details") !== "off");

function toggleDetails(): void {
  areDetailsShown.value = !areDetailsShown.value;
  writeChoice("job-details", areDetailsShown.value ? null : "off");
}

export default function JobPage({ route }: { route: Route }) {
  const { project = "", job = "" } = route.parameters;
  useMemo(() => {
    if (!["tab", "stamp", "task", "severity", "attempt", "trial"].some((name) => route.query.has(name))) readEndEarly(project, job);
  }, [project, job]);
  const store = useJob(project, job);
  const document = useResource(store.resource, (signal) => callApi<StoredDocument>("GET", `${store.resource}/document`, { signal }));
  const summary = store.summary.value;
  if (store.deleted.value) return <DeletedJob />;
  if (summary === null) {
    const error = store.error.value;
    return <main id="main" tabIndex={-1}>{error ? <MissingJob job={job} store={store} /> : <p class="loading" role="status">Loading…</p>}</main>;
  }
  return (
    <main id="main" tabIndex={-1} class="job">
      <Header store={store} summary={summary} document={document} />
      {store.error.value && <ForgottenJob />}
      <WaitingReason store={store} summary={summary} />
      <Failure store={store} summary={summary} />
      <Explanation store={store} summary={summary} />
      {areDetailsShown.value && (
        <div class="job-panels">
          <Roles store={store} summary={summary} />
          <Story store={store} summary={summary} />
        </div>
      )}
      <Tabs route={route} store={store} summary={summary} document={document} />
    </main>
  );
}

function MissingJob({ job, store }: { job: string; store: JobStore }) {
  const error = store.error.value;
  if (!error) return null;
  return (
    <>
      <h1>{job}</h1>
      <ErrorNotice error={error} retry={() => void store.reload()} />
      {error.status === 404 && (
        <p>
          It may have another id, belong to another project, or be deleted.{" "}
          <a href={`/console/?q=${encodeURIComponent(job)}&show=all`}>Search all jobs</a>.
        </p>
      )}
    </>
  );
}

function ForgottenJob() {
  return <Notice tone="warning">The server does not have this job any more: it was deleted, or its days of retention are over. The page shows what it last got.</Notice>;
}

function DeletedJob() {
  return <main id="main" tabIndex={-1}><Notice tone="good">The job was deleted. <a href="/console/">Back to the queue</a></Notice></main>;
}

function Tabs({ route, ...props }: TabProps & { route: Route }) {
  const active = TABS.find((tab) => tab.id === route.query.get("tab")) ?? TABS[0];
  if (!active) return null;
  const View = active.view;
  const onKey = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = TABS[(TABS.indexOf(active) + step + TABS.length) % TABS.length];
    if (step === 0 || !next) return;
    event.preventDefault();
    setQuery({ tab: next.id === "log" ? null : next.id });
    window.document.getElementById(`tab-${next.id}`)?.focus();
  };
  return (
    <>
      <div class="job-tabs">
        <div role="tablist" aria-label="About the job" onKeyDown={onKey}>
          {TABS.map((tab) => (
            <button key={tab.id} id={`tab-${tab.id}`} type="button" role="tab" aria-selected={tab === active} aria-controls="tab-panel" tabIndex={tab === active ? 0 : -1}
              onClick={() => setQuery({ tab: tab.id === "log" ? null : tab.id }, { push: true })}>{tab.title}</button>
          ))}
        </div>
        <button type="button" class="link" aria-expanded={areDetailsShown.value} onClick={toggleDetails}>
          {areDetailsShown.value ? "Hide replicas and story" : "Show replicas and story"}
        </button>
      </div>
      <div id="tab-panel" class="job-tab" role="tabpanel" aria-labelledby={`tab-${active.id}`}><View {...props} /></div>
    </>
  );
}

/** A failed job's log opens at its first error, any other at its end. */
function LogTab({ store, summary }: TabProps) {
  const failure = useFailure(store, summary);
  if (failure === "loading") return <p class="loading" role="status">Loading…</p>;
  return <LogView project={store.project} job={store.job} summary={summary} isOpen={!isEnded(summary)} openAt={failure?.error?.begin.stamp ?? null} />;
}
