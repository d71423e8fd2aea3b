/** The form for a token, on the sign-in page and in the dialog over a page. */

import { useSignal } from "@preact/signals";

import { ApiError } from "../../net/api";
import { signIn } from "../../net/signin";
import { Notice, sentence } from "../../ui/notice";

export function SignInForm({ onSignedIn }: { onSignedIn: () => void }) {
  const token = useSignal("");
  const problem = useSignal("");
  const busy = useSignal(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    busy.value = true;
    try {
      await signIn({ token: token.value.trim() });
      token.value = "";
      onSignedIn();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      problem.value = sentence(error.message);
    } finally {
      busy.value = false;
    }
  };
  return (
    <form class="signin" onSubmit={(event) => void submit(event)}>
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="current-password" required autofocus spellcheck={false}
        value={token.value} onInput={(event) => (token.value = event.currentTarget.value)}
        aria-describedby="token-help" aria-invalid={problem.value !== ""} />
      <p id="token-help" class="hint">
        An administrator makes it with <code>trainshed tokens create</code>. With a token on your machine,{" "}
        <code>trainshed console</code> prints a link that signs in.
      </p>
      {problem.value && <Notice tone="error">{problem.value}</Notice>}
      <button type="submit" class="primary" disabled={busy.value || token.value.trim() === ""}>
        {busy.value ? "Signing in…" : "Sign in"}
      </button>
    </form>
  );
}
