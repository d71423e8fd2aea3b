/** The sign-in page: a token in a form, or the code of `trainshed console` in the fragment. */


import { safeNext, type Route } from "../../core/route";
import { navigate } from "../../core/router";
import { codeProblem } from "../../net/signin";
import { Notice } from "../../ui/notice";
import { SignInForm } from "./form";

export default function SignInPage({ route }: { route: Route }) {
  return (
    <main id="main" class="card" tabIndex={-1}>
      <h1>Sign in to Trainshed</h1>
      {codeProblem.value && <Notice tone="error">{codeProblem.value}</Notice>}
      <SignInForm onSignedIn={() => navigate(safeNext(route.query.get("next")), { replace: true })} />
    </main>
  );
}
