/** Public keys of service accounts, which sign their own tokens. */

import { useSignal } from "@preact/signals";

import { callApi } from "../../net/api";
import type { Keys, KeySummary } from "../../net/types";
import { announceCall, textsOf, useAttempt } from "../../ui/attempt";
import { Confirm } from "../../ui/dialog";
import { ErrorNotice } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { Time } from "../../ui/time";
import { Field, ListTable, projectTitle, ROLES } from "./fields";

export function KeysTab() {
  const keys = useResource("keys", (signal) => callApi<Keys>("GET", "/keys", { signal }));
  const removing = useSignal<KeySummary | null>(null);
  const remove = async (key: KeySummary): Promise<void> => {
    const call = (): Promise<unknown> => callApi("DELETE", `/keys/${encodeURIComponent(key.id)}`);
    await announceCall(call, `The key of ${key.email} is removed.`, "The key was not removed. ");
    keys.reload();
  };
  const list = keys.value.value?.keys;
  return (
    <section aria-label="Keys">
      <p>A program with a service account's file signs its own tokens; the server checks them with the public key.</p>
      {keys.error.value && <ErrorNotice error={keys.error.value} retry={keys.reload} />}
      {list && list.length === 0 && <p class="hint">No key is registered.</p>}
      {list && list.length > 0 && <KeyTable keys={list} onRemove={(key) => (removing.value = key)} />}
      <AddKey onAdded={keys.reload} />
      {removing.value && (
        <Confirm title={`Remove the key of ${removing.value.email}?`} action="Remove" onClose={() => (removing.value = null)}
          onConfirm={() => removing.value && void remove(removing.value)}>
          <p>Tokens that it signed are refused within two seconds.</p>
        </Confirm>
      )}
    </section>
  );
}

function KeyTable({ keys, onRemove }: { keys: readonly KeySummary[]; onRemove: (key: KeySummary) => void }) {
  return (
    <ListTable label="List of keys" heads={["Email", "Id", "Project", "Role", "Added"]}>
      {keys.map((key) => (
        <tr key={key.id}>
          <th scope="row">{key.email}</th>
          <td><code>{key.id}</code></td>
          <td>{projectTitle(key.project)}</td>
          <td>{key.role}</td>
          <td><Time value={key.createTime} /></td>
          <td><button type="button" aria-label={`Remove the key of ${key.email}`} onClick={() => onRemove(key)}>Remove</button></td>
        </tr>
      ))}
    </ListTable>
  );
}

function AddKey({ onAdded }: { onAdded: () => void }) {
  const { problem, isBusy, run } = useAttempt();
  const submit = (event: SubmitEvent): Promise<boolean> => {
    const form = event.currentTarget as HTMLFormElement;
    const texts = textsOf(event);
    return run(async () => {
      await callApi("POST", "/keys", { body: { ...texts, project: texts.project || "*" } });
      form.reset();
      onAdded();
    });
  };
  return (
    <form class="make" aria-label="Add a key" onSubmit={(event) => void submit(event)}>
      <Field label="Email"><input name="email" required autocomplete="off" placeholder="trainer@demo.iam.gserviceaccount.com" /></Field>
      <Field label="Project"><input name="project" autocomplete="off" placeholder="* is all projects" /></Field>
      <Field label="Role"><select name="role">{ROLES.map((role) => <option key={role}>{role}</option>)}</select></Field>
      <label class="form-field wide"><span>Public key (PEM)</span><textarea name="publicKey" required rows={4} cols={64} spellcheck={false} placeholder="-----BEGIN PUBLIC KEY-----" /></label>
      <button type="submit" class="primary" disabled={isBusy.value}>Add the key</button>
      {problem.value && <ErrorNotice error={problem.value} />}
    </form>
  );
}
