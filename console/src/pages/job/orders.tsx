/** The dialogs that cancel, label and delete a job. */

import { useSignal } from "@preact/signals";

import { showHidden } from "../../core/hidden";
import { ApiError, callApi } from "../../net/api";
import type { JobSummary } from "../../net/types";
import { Confirm, Dialog } from "../../ui/dialog";
import { announce, ErrorNotice, sentence } from "../../ui/notice";
import type { JobStore } from "./data";
import { changedLabels, labelText } from "./labels";

export type Order = "cancel" | "label" | "delete";

interface OrderProps {
  order: Order;
  store: JobStore;
  summary: JobSummary;
  labels: readonly (readonly [string, string])[];
  onClose: () => void;
  /** The order was carried out. */
  onDone: () => void;
}

export function OrderDialog(props: OrderProps) {
  if (props.order === "label") return <LabelDialog {...props} />;
  const { store, summary, onClose } = props;
  const name = showHidden(summary.displayName);
  if (props.order === "cancel") {
    return (
      <Confirm title={`Cancel ${name}?`} action="Cancel the job" onClose={onClose} onConfirm={() => void cancel(store, name)}>
        <p>{summary.replicas.length > 0 ? "Its replicas get notice, and are stopped." : "It leaves the queue."} A cancelled job cannot be continued.</p>
      </Confirm>
    );
  }
  return (
    <Confirm title={`Delete ${name}?`} action="Delete the job" onClose={onClose} onConfirm={() => void remove(store, name)}>
      <p>The job is listed no more, and this page cannot show its log any longer.</p>
    </Confirm>
  );
}

async function cancel(store: JobStore, name: string): Promise<void> {
  await order(() => callApi("POST", `${store.resource}:cancel`, { body: {} }), `${name} is being cancelled.`);
  await store.reload();
}

async function remove(store: JobStore, name: string): Promise<void> {
  if (await order(() => callApi("DELETE", store.resource), `${name} was deleted.`)) store.deleted.value = true;
}

async function order(call: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await call();
    announce("good", done);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    announce("error", sentence(error.message));
    return false;
  }
}

function LabelDialog({ store, labels, onClose, onDone }: OrderProps) {
  const error = useSignal<ApiError | null>(null);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget as HTMLFormElement).get("labels") ?? "");
    try {
      await callApi("POST", `${store.resource}:label`, { body: { labels: changedLabels(labels, text) } });
      onDone();
      onClose();
    } catch (reason) {
      if (!(reason instanceof ApiError)) throw reason;
      error.value = reason;
    }
  };
  return (
    <Dialog title="Labels" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <label for="job-labels">One label a line: KEY=VALUE</label>
        <p><textarea id="job-labels" name="labels" rows={6} cols={40} spellcheck={false} autofocus defaultValue={labelText(labels)} /></p>
        {error.value && <ErrorNotice error={error.value} />}
        <footer class="actions">
          <button type="button" onClick={onClose}>Back</button>
          <button type="submit" class="primary">Save</button>
        </footer>
      </form>
    </Dialog>
  );
}
