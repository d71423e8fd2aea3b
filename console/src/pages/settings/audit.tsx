/** The audit log: who changed or was refused what, the newest first; filters are in the address. */

import { useMemo } from "preact/hooks";
import { useSignal } from "@preact/signals";

import { callName, matchesEntry, resourceOf, SINCE } from "../../core/audit";
import { formatPlural, formatTime } from "../../core/format";
import { showHidden } from "../../core/hidden";
import type { Route } from "../../core/route";
import { setQuery } from "../../core/router";
import { callApi } from "../../net/api";
import type { AuditedCall, AuditPage } from "../../net/types";
import { ErrorNotice } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { TextChoice } from "../../ui/text_choice";
import { VirtualTable, type Column } from "../../ui/virtual_table";
import { Field } from "./fields";

/** A caller's text, which may be cut on the screen. */
const Text = ({ text, title = text }: { text: string; title?: string }) => <span title={showHidden(title)}>{showHidden(text)}</span>;

const COLUMNS: ReadonlyArray<Column<AuditedCall>> = [
  { id: "time", title: "Time", width: "10.5rem", cell: (entry) => <time dateTime={entry.time} title={`${formatTime(entry.time, true)} UTC`} class="num">{formatTime(entry.time)}</time> },
  { id: "caller", title: "Caller", width: "minmax(6rem, 1fr)", cell: (entry) => <Text text={entry.caller || "–"} /> },
  { id: "method", title: "Call", width: "6.5rem", cell: (entry) => <Text title={entry.method} text={callName(entry)} /> },
  { id: "resource", title: "Resource", width: "minmax(14rem, 3fr)", cell: (entry) => <Text title={entry.resource} text={resourceOf(entry)} /> },
  { id: "project", title: "Project", width: "6rem", cell: (entry) => entry.project },
  { id: "status", title: "Answer", width: "10.5rem", cell: (entry) => <span class={entry.status === "OK" ? "good-text" : "bad-text"}>{entry.status === "OK" ? "✓" : "✕"} {entry.status}</span> },
  { id: "credential", title: "Credential", width: "7rem", cell: (entry) => <Text text={entry.credential || "none"} /> },
  { id: "address", title: "Address", width: "6.5rem", cell: (entry) => entry.address },
];

/** The most entries that the server sends at once. */
const ENTRIES_MAX = 1000;

export function AuditTab({ route }: { route: Route }) {
  const since = route.query.get("since") ?? "";
  const project = route.query.get("of") ?? "";
  const text = route.query.get("q") ?? "";
  const onlyRefused = route.query.get("refused") === "1";
  const active = useSignal<string | null>(null);
  const page = useResource(`audit ${since} ${project}`, (signal) => {
    const seconds = SINCE[since];
    const from = seconds ? new Date(Date.now() - seconds * 1000).toISOString() : null;
    return callApi<AuditPage>("GET", "/audit", { query: { since: from, project }, signal });
  });
  const answer = page.value.value;
  const entries = useMemo(() => (answer?.entries ?? []).toReversed().filter((entry) => matchesEntry(entry, text, onlyRefused)), [answer, text, onlyRefused]);
  const keys = useMemo(() => new Map(entries.map((entry, index) => [entry, `${entry.time}-${index}`])), [entries]);
  return (
    <section class="audit" aria-label="Audit log">
      <form class="make" role="search" aria-label="Audit log" onSubmit={(event) => event.preventDefault()}>
        <Field label="Since"><select value={since} onChange={(event) => setQuery({ since: event.currentTarget.value })}>
          <option value="">the beginning</option>
          {Object.keys(SINCE).map((name) => <option key={name} value={name}>the last {name}</option>)}
        </select></Field>
        <Field label="Project"><TextChoice value={project} onChoose={(of) => setQuery({ of })} /></Field>
        <Field label="Text"><input type="search" value={text} placeholder="caller, resource" onInput={(event) => setQuery({ q: event.currentTarget.value })} /></Field>
        <label class="check"><input type="checkbox" checked={onlyRefused} onChange={(event) => setQuery({ refused: event.currentTarget.checked ? "1" : null })} /> only refused</label>
        <button type="button" onClick={page.reload}>Read again</button>
      </form>
      {page.error.value && <ErrorNotice error={page.error.value} retry={page.reload} />}
      <p class="hint" role="status">
        {answer && `${formatPlural(entries.length, "entry", "entries")}${answer.entries.length === ENTRIES_MAX ? `, among the newest ${ENTRIES_MAX}; choose a later time or a project for others` : ""}`}
      </p>
      {answer && <VirtualTable label="Audit log" columns={COLUMNS} rows={entries} rowKey={(entry) => keys.get(entry) ?? ""} active={active.value} onActivate={(key) => (active.value = key)} />}
    </section>
  );
}
