/** Settings: tokens, keys, the audit log. */

import type { Route } from "../../core/route";

export default function SettingsPage({ route }: { route: Route }) {
  return (
    <main id="main" tabIndex={-1}>
      <h1>Settings</h1>
      <p>{route.query.get("tab")}</p>
    </main>
  );
}
