/** The form for a token, on the sign-in page and in the dialog over a page. */

import { useSignal } from "@preact/signals";

import { signIn } from "../../net/signin";
import { useAttempt } from "../../ui/attempt";
import { ErrorNotice } from "../../ui/notice";

export function SignInForm({ onSignedIn }: { onSignedIn: () => void }) {
  const token = useSignal("");
  const { problem, isBusy, run } = useAttempt();
  const submit = (event: Event): Promise<boolean> => {
    event.preventDefault();
    return run(async () => {
      await signIn({ token: token.value.trim() });
      token.value = "";
      onSignedIn();
    });
  };
  return (
    <form class="signin" onSubmit={(event) => void submit(event)}>
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="current-password" required autofocus spellcheck={false}
        value={token.value} onInput={(event) => (token.value = event.currentTarget.value)}
        aria-describedby="token-help" aria-invalid={problem.value !== null} />
      <p id="token-help" class="hint">
        An administrator makes it with <code>trainshed tokens create</code>. With a token on your machine,{" "}
        <code>trainshed console</code> prints a link that signs in.
      </p>
      {problem.value && <ErrorNotice error={problem.value} />}
      <button type="submit" class="primary" disabled={isBusy.value || token.value.trim() === ""}>
        {isBusy.value ? "Signing in…" : "Sign in"}
      </button>
    </form>
  );
}
