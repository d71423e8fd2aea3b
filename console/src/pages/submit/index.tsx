/** The page Submit. */

import type { Route } from "../../core/route";

export default function SubmitPage({ route }: { route: Route }) {
  return (
    <main id="main" tabIndex={-1}>
      <h1>Submit</h1>
      <p>{Object.values(route.parameters).join(" ")}</p>
    </main>
  );
}
