/** Tokens: make one, whose text is shown once; revoke one. */

import { useSignal } from "@preact/signals";

import { callApi } from "../../net/api";
import type { ListedToken, MadeToken, Tokens } from "../../net/types";
import { announceCall, textsOf, useAttempt } from "../../ui/attempt";
import { CopyButton } from "../../ui/copy";
import { Confirm, Dialog } from "../../ui/dialog";
import { ErrorNotice, Notice } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { Time } from "../../ui/time";
import { Field, ListTable, projectTitle, ROLES } from "./fields";

export function TokensTab() {
  const tokens = useResource("tokens", (signal) => callApi<Tokens>("GET", "/tokens", { signal }));
  const made = useSignal<MadeToken | null>(null);
  const revoking = useSignal<ListedToken | null>(null);
  const revoke = async (token: ListedToken): Promise<void> => {
    const call = (): Promise<unknown> => callApi("DELETE", `/tokens/${encodeURIComponent(token.id)}`);
    await announceCall(call, `The token ${token.name} is revoked.`, "The token was not revoked. ");
    tokens.reload();
  };
  const list = tokens.value.value?.tokens.toReversed();
  return (
    <section aria-label="Tokens">
      <MakeToken onMade={(token) => ((made.value = token), tokens.reload())} />
      {tokens.error.value && <ErrorNotice error={tokens.error.value} retry={tokens.reload} />}
      {list && <TokenTable tokens={list} onRevoke={(token) => (revoking.value = token)} />}
      {made.value && <MadeTokenDialog token={made.value} onClose={() => (made.value = null)} />}
      {revoking.value && <RevokeDialog token={revoking.value} onConfirm={(token) => void revoke(token)} onClose={() => (revoking.value = null)} />}
    </section>
  );
}

function TokenTable({ tokens, onRevoke }: { tokens: readonly ListedToken[]; onRevoke: (token: ListedToken) => void }) {
  return (
    <ListTable label="List of tokens" heads={["Name", "Id", "Project", "Role", "Made", "Ends", "Last use"]}>
      {tokens.map((token) => (
        <tr key={token.id} class={token.revoked ? "gone" : ""}>
          <th scope="row">{token.name}</th>
          <td><code>{token.id}</code></td>
          <td>{projectTitle(token.project)}</td>
          <td>{token.role}</td>
          <td><Time value={token.createTime} /></td>
          <td>{token.expireTime ? <Time value={token.expireTime} /> : "never"}</td>
          <td>{token.lastUseTime ? <Time value={token.lastUseTime} /> : "–"}</td>
          <td>{token.revoked ? <span class="hint">⊘ revoked</span> : <button type="button" aria-label={`Revoke ${token.name}`} onClick={() => onRevoke(token)}>Revoke</button>}</td>
        </tr>
      ))}
    </ListTable>
  );
}

function RevokeDialog(props: { token: ListedToken; onConfirm: (token: ListedToken) => void; onClose: () => void }) {
  const { token } = props;
  return (
    <Confirm title={`Revoke the token ${token.name}?`} action="Revoke" onConfirm={() => props.onConfirm(token)} onClose={props.onClose}>
      <p>Programs and browsers that use it are refused within two seconds. Jobs that it submitted go on.</p>
    </Confirm>
  );
}

function MadeTokenDialog({ token, onClose }: { token: MadeToken; onClose: () => void }) {
  return (
    <Dialog title={`The token ${token.name}`} onClose={onClose}>
      <Notice tone="warning">Copy it now: the server keeps only its digest and cannot show it again.</Notice>
      <pre class="secret">{token.token}</pre>
      <footer class="actions">
        <CopyButton text={token.token} what="token" label="Copy" />
        <button type="button" class="primary" onClick={onClose}>I have copied it</button>
      </footer>
    </Dialog>
  );
}

function MakeToken({ onMade }: { onMade: (token: MadeToken) => void }) {
  const { problem, isBusy, run } = useAttempt();
  const submit = (event: SubmitEvent): Promise<boolean> => {
    const form = event.currentTarget as HTMLFormElement;
    const body = Object.fromEntries(Object.entries(textsOf(event)).filter(([, text]) => text));
    return run(async () => {
      onMade(await callApi<MadeToken>("POST", "/tokens", { body }));
      form.reset();
    });
  };
  return (
    <form class="make" aria-label="Make a token" onSubmit={(event) => void submit(event)}>
      <Field label="Name"><input name="name" autocomplete="off" maxLength={100} placeholder="for whom or what" /></Field>
      <Field label="Project"><input name="project" autocomplete="off" placeholder="* is all projects" /></Field>
      <Field label="Role"><select name="role">{ROLES.map((role) => <option key={role}>{role}</option>)}</select></Field>
      <Field label="Ends after"><input name="expires" class="short" autocomplete="off" placeholder="90d; empty: never" /></Field>
      <button type="submit" class="primary" disabled={isBusy.value}>Make a token</button>
      {problem.value && <ErrorNotice error={problem.value} />}
    </form>
  );
}
