/** Submit: the text of a job, its problems while one types, and what the server would do with it. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { formatPlural } from "../../core/format";
import { jobPath, type Route } from "../../core/route";
import { navigate, setQuery } from "../../core/router";
import { editOf, firstChangedLine, withPlainEnds } from "../../core/text_ranges";
import { ApiError, callApi } from "../../net/api";
import { outage } from "../../net/connection";
import { ALL_PROJECTS, project as shownProject, projects } from "../../net/project";
import { maySubmit } from "../../net/session";
import { readChoice, writeChoice } from "../../net/settings";
import type { StoredJobName, TextEdit } from "../../net/types";
import { useAttempt } from "../../ui/attempt";
import { lazy } from "../../ui/lazy";
import { NamedJobLink } from "../../ui/job_link";
import { announce, ErrorNotice, Notice } from "../../ui/notice";
import { bodyOf, useCheck, type Check } from "./check";
import { newRequestId, readDraft, writeDraft } from "./draft";
import type { EditorHandle } from "./editor";
import { Forecast } from "./forecast";
import { Problems } from "./problems";
import { loadJob, Sources, type LoadedText } from "./sources";

const Editor = lazy(() => import("./editor"));

const LOCATION = "us-central1";

/** The project of the frame; with all projects the last one that a job was submitted to. */
function firstProject(): string {
  if (shownProject.value !== ALL_PROJECTS) return shownProject.value;
  return readChoice("submit.project") ?? projects.value[0]?.id ?? "";
}

function useSubmitState() {
  const draft = useRef(readDraft()).current;
  const text = useSignal(draft?.text ?? "");
  const location = useSignal(draft?.location || LOCATION);
  const project = useSignal(firstProject());
  const about = useSignal<ComponentChildren>(draft?.text ? "The text that you typed before." : "");
  const requestId = useRef(draft?.requestId ?? newRequestId()).current;
  const attempt = useAttempt();
  const editor = useRef<EditorHandle | null>(null);
  /** The line that the offered change changed. */
  const changed = useSignal<{ line: number } | null>(null);
  useEffect(() => writeDraft({ text: text.value, location: location.value, requestId }), [text.value, location.value]);
  useEffect(() => {
    const isTyped = project.value !== "" && shownProject.value === ALL_PROJECTS;
    if (!isTyped) project.value = firstProject();
  }, [shownProject.value, projects.value]);
  const load = (loaded: LoadedText): void => {
    if (loaded.location) location.value = loaded.location;
    about.value = loaded.about;
    text.value = withPlainEnds(loaded.text);
    editor.current?.setText(text.value);
    const line = loaded.changedFrom ? firstChangedLine(loaded.changedFrom, loaded.text) : null;
    changed.value = line === null ? null : { line };
  };
  const onEditor = (handle: EditorHandle): void => {
    editor.current = handle;
    handle.setText(text.value); // a text that was loaded while the editor was being made
  };
  return { text, location, project, about, requestId, editor, onEditor, changed, load, ...attempt };
}

type SubmitState = ReturnType<typeof useSubmitState>;

/** Take the text of `?from=P/J&change=1` once; the address then has no such words, so a reload keeps what was typed. */
function useTextOfAddress(route: Route, state: SubmitState): void {
  const from = route.query.get("from");
  useEffect(() => {
    const [project, job] = (from ?? "").split("/");
    if (!project || !job) return;
    let isLatest = true;
    state.project.value = project;
    loadJob(project, job, route.query.get("change") === "1").then(
      (loaded) => isLatest && (state.load(loaded), setQuery({ from: null, change: null })),
      (error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        if (isLatest) state.problem.value = error;
      },
    );
    return () => {
      isLatest = false;
    };
  }, [from]);
}

async function submit(state: SubmitState): Promise<void> {
  const body = { ...bodyOf(state.text.value, state.location.value), requestId: state.requestId };
  const stored = await callApi<StoredJobName>("POST", `/projects/${encodeURIComponent(state.project.value)}/jobs`, { body });
  writeChoice("submit.project", state.project.value);
  writeDraft(null);
  announce("good", <>Submitted <NamedJobLink project={stored.project} job={stored.job} name={stored.displayName} />.</>);
  navigate(jobPath(stored.project, stored.job));
}

export default function SubmitPage({ route }: { route: Route }) {
  const state = useSubmitState();
  const check = useCheck(maySubmit() ? state.project.value : "", state.text.value, state.location.value);
  useTextOfAddress(route, state);
  const answer = check.last.value?.answer;
  const use = (edit: TextEdit): void => {
    const checked = check.last.value;
    if (checked?.text === state.text.value) state.editor.current?.apply(editOf(checked.text, edit));
  };
  return (
    <main id="main" tabIndex={-1} class="submit">
      <h1>Submit</h1>
      {!maySubmit() && <Notice tone="warning">You may look, but not submit: that needs the role submitter. An administrator makes a token with it.</Notice>}
      <Sources project={state.project.value} onLoad={state.load} />
      {state.about.value && <p class="hint" role="status">{state.about.value}</p>}
      <div class="columns">
        <div class="left">
          <Editor text={state.text.value} onText={(text) => (state.text.value = text)} problems={answer?.violations ?? []}
            checkedText={check.last.value?.text ?? ""} shown={state.changed.value} onReady={state.onEditor} />
          <SubmitBar state={state} check={check} />
        </div>
        <div>
          {state.problem.value && <ErrorNotice error={state.problem.value} />}
          {check.error.value && <ErrorNotice error={check.error.value} />}
          {!answer && <p class="hint">The server checks the text while you type: its problems, machines, price, and whether it would start now. The server stores nothing before you submit.</p>}
          {answer && <Problems problems={answer.violations} onUse={use} onJump={(problem) => state.editor.current?.jump(problem.line ?? 1, problem.column ?? 1)} />}
          {answer && <Forecast answer={answer} onUse={use} onLocation={(location) => (state.location.value = location)} />}
        </div>
      </div>
    </main>
  );
}

function describeCheck(state: SubmitState, check: Check): string {
  if (outage.value) return "The server does not answer; your text stays here.";
  if (!state.text.value.trim()) return "";
  if (!state.project.value) return "Name a project.";
  if (check.isChecking.value) return "Checking…";
  if (check.error.value || !check.last.value) return "";
  const count = check.last.value.answer.violations.length;
  return count > 0 ? formatPlural(count, "problem") : "No problems.";
}

function SubmitBar({ state, check }: { state: SubmitState; check: Check }) {
  const checked = check.last.value;
  const isCurrent = checked?.text === state.text.value && checked.location === state.location.value && checked.project === state.project.value;
  const isOk = isCurrent && checked.answer.valid && !checked.answer.start?.refused;
  const hasLocation = checked?.answer.kind !== "AI_PLATFORM_JOB";
  return (
    <form class="bar-below" onSubmit={(event) => (event.preventDefault(), void state.run(() => submit(state)))}>
      <label class="field">project
        <input list="submit-projects" required value={state.project.value} onInput={(event) => (state.project.value = event.currentTarget.value.trim())} />
        <datalist id="submit-projects">{projects.value.map(({ id }) => <option key={id} value={id} />)}</datalist>
      </label>
      {hasLocation && (
        <label class="field">location
          <input value={state.location.value} onInput={(event) => (state.location.value = event.currentTarget.value.trim())} />
        </label>
      )}
      <span class="hint" role="status">{describeCheck(state, check)}</span>
      <button type="submit" class="primary" disabled={!isOk || state.isBusy.value || outage.value !== null}>
        {state.isBusy.value ? "Submitting…" : "Submit"}
      </button>
    </form>
  );
}
