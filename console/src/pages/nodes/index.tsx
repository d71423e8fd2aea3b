/** The page Nodes. */

import type { Route } from "../../core/route";

export default function NodesPage({ route }: { route: Route }) {
  return (
    <main id="main" tabIndex={-1}>
      <h1>Nodes</h1>
      <p>{Object.values(route.parameters).join(" ")}</p>
    </main>
  );
}
