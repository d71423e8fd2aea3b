/** Orders for jobs of the queue: cancel several, and the list of actions of one. */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { formatPlural, shorten } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { isEnded, isWaiting, jobIdOf } from "../../core/queue";
import { submitPath } from "../../core/route";
import { callApi } from "../../net/api";
import { maySubmit } from "../../net/session";
import type { JobRow } from "../../net/types";
import { announceCall } from "../../ui/attempt";
import { Confirm, Dialog } from "../../ui/dialog";
import { announce, sentence } from "../../ui/notice";
import { pathOf } from "./columns";

interface CancelResult {
  name: string;
  code: string;
  message?: string;
}

/** The jobs that the user is asked about; null while there is no question. */
const toCancel = signal<readonly JobRow[] | null>(null);
const refused = signal<ReadonlyArray<CancelResult & { title: string }>>([]);
const actionsOf = signal<JobRow | null>(null);

export function askToCancel(rows: readonly JobRow[]): void {
  const open = rows.filter((row) => !isEnded(row));
  if (open.length === 0) announce("info", "None of the selected jobs is open.");
  else toCancel.value = open;
}

export function openActions(row: JobRow): void {
  actionsOf.value = row;
}

async function cancel(rows: readonly JobRow[], project: string): Promise<void> {
  const body = { names: rows.map((row) => row.name) };
  const call = async (): Promise<void> =>
    report(rows, (await callApi<{ results: CancelResult[] }>("POST", `/projects/${encodeURIComponent(project)}/jobs:cancel`, { body })).results);
  await announceCall(call, "", "The jobs were not cancelled. ");
}

function report(rows: readonly JobRow[], results: readonly CancelResult[]): void {
  const titles = new Map(rows.map((row) => [row.name, row.displayName]));
  const accepted = results.filter((result) => result.code === "OK").length;
  if (accepted > 0) announce("good", `${formatPlural(accepted, "job")} will be cancelled.`);
  refused.value = results.filter((result) => result.code !== "OK").map((result) => ({ ...result, title: titles.get(result.name) ?? result.name }));
}

const SHOWN_MAX = 8;

export function OrderDialogs({ project, onExplain, onDone }: { project: string; onExplain: (row: JobRow) => void; onDone: () => void }) {
  const rows = toCancel.value;
  useEffect(() => () => {
    [toCancel.value, refused.value, actionsOf.value] = [null, [], null]; // a user who comes back gets no old question
  }, []);
  return (
    <>
      {rows && (
        <Confirm title={`Cancel ${formatPlural(rows.length, "job")}?`} action={`Cancel ${formatPlural(rows.length, "job")}`}
          onClose={() => (toCancel.value = null)} onConfirm={() => void cancel(rows, project).then(onDone)}>
          <p>Running replicas get the notice that their jobs asked for, then they are stopped. A cancelled job cannot be continued.</p>
          <ul>
            {rows.slice(0, SHOWN_MAX).map((row) => <li key={row.uid}>{shorten(showHidden(row.displayName), 80)} <span class="hint">{row.state}</span></li>)}
            {rows.length > SHOWN_MAX && <li>and {rows.length - SHOWN_MAX} more</li>}
          </ul>
        </Confirm>
      )}
      {refused.value.length > 0 && <Refused />}
      {actionsOf.value && <Actions row={actionsOf.value} onExplain={onExplain} />}
    </>
  );
}

function Refused() {
  return (
    <Dialog title={`${formatPlural(refused.value.length, "job")} not cancelled`} onClose={() => (refused.value = [])}>
      <ul class="results">
        {refused.value.map((result) => <li key={result.name}><b>{shorten(showHidden(result.title), 80)}</b>: {sentence(result.message ?? result.code)}</li>)}
      </ul>
    </Dialog>
  );
}

function Actions({ row, onExplain }: { row: JobRow; onExplain: (row: JobRow) => void }) {
  const close = (): void => {
    actionsOf.value = null;
  };
  const run = (order: (row: JobRow) => void) => () => {
    close();
    order(row);
  };
  return (
    <Dialog title={shorten(showHidden(row.displayName), 60)} onClose={close}>
      <div class="choices" onClick={(event) => (event.target as Element).closest("a") && close()}>
        <a href={pathOf(row)} autofocus>Open</a>
        <button type="button" onClick={run(onExplain)}>{isWaiting(row) ? "Why it waits" : "Explain its state"}</button>
        {maySubmit() && <a href={submitPath(row.project, jobIdOf(row))}>Submit again with changes</a>}
        {maySubmit() && !isEnded(row) && <button type="button" class="danger" onClick={run((job) => askToCancel([job]))}>Cancel…</button>}
      </div>
    </Dialog>
  );
}
