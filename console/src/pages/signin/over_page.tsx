/** Signing in again over a page, which keeps what the user has typed. */

import { signInNeeded } from "../../net/session";
import { Dialog } from "../../ui/dialog";
import { SignInForm } from "./form";

export function SignInOverPage() {
  if (!signInNeeded.value) return null;
  return (
    <Dialog title="Your sign-in has ended" closable={false} onClose={() => undefined}>
      <p>Sign in again; the page keeps what you have typed.</p>
      <SignInForm onSignedIn={() => undefined} />
    </Dialog>
  );
}
