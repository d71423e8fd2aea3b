/** The page Compare. */

import type { Route } from "../../core/route";

export default function ComparePage({ route }: { route: Route }) {
  return (
    <main id="main" tabIndex={-1}>
      <h1>Compare</h1>
      <p>{Object.values(route.parameters).join(" ")}</p>
    </main>
  );
}
