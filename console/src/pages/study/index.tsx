/** The page Study. */

import type { Route } from "../../core/route";

export default function StudyPage({ route }: { route: Route }) {
  return (
    <main id="main" tabIndex={-1}>
      <h1>Study</h1>
      <p>{Object.values(route.parameters).join(" ")}</p>
    </main>
  );
}
