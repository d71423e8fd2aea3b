/** The dialogs that cancel, label and delete a job. */

import { showHidden } from "../../core/hidden";
import { callApi } from "../../net/api";
import type { JobSummary } from "../../net/types";
import { announceCall, textsOf, useAttempt } from "../../ui/attempt";
import { Confirm, Dialog } from "../../ui/dialog";
import { ErrorNotice } from "../../ui/notice";
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
  await announceCall(() => callApi("POST", `${store.resource}:cancel`, { body: {} }), `${name} is being cancelled.`);
  await store.reload();
}

async function remove(store: JobStore, name: string): Promise<void> {
  if (await announceCall(() => callApi("DELETE", store.resource), `${name} was deleted.`)) store.deleted.value = true;
}

function LabelDialog({ store, labels, onClose, onDone }: OrderProps) {
  const { problem, isBusy, run } = useAttempt();
  const submit = (event: SubmitEvent): Promise<boolean> => {
    const text = textsOf(event).labels ?? "";
    return run(async () => {
      await callApi("POST", `${store.resource}:label`, { body: { labels: changedLabels(labels, text) } });
      onDone();
      onClose();
    });
  };
  return (
    <Dialog title="Labels" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <label for="job-labels">One label a line: KEY=VALUE</label>
        <p><textarea id="job-labels" name="labels" rows={6} cols={40} spellcheck={false} autofocus defaultValue={labelText(labels)} /></p>
        {problem.value && <ErrorNotice error={problem.value} />}
        <footer class="actions">
          <button type="button" onClick={onClose}>Back</button>
          <button type="submit" class="primary" disabled={isBusy.value}>Save</button>
        </footer>
      </form>
    </Dialog>
  );
}
