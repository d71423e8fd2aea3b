/** The page Job. */

import type { Route } from "../../core/route";

export default function JobPage({ route }: { route: Route }) {
  return (
    <main id="main" tabIndex={-1}>
      <h1>Job</h1>
      <p>{Object.values(route.parameters).join(" ")}</p>
    </main>
  );
}
