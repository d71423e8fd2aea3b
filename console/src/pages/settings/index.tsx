/** Settings: tokens, keys and the audit log for administrators; choices of this browser for all. */

import type { ComponentType } from "preact";

import type { Route } from "../../core/route";
import { isAdministrator } from "../../net/session";
import { Notice } from "../../ui/notice";
import { AuditTab } from "./audit";
import { BrowserTab } from "./browser";
import { KeysTab } from "./keys";
import { TokensTab } from "./tokens";

interface Tab {
  id: string;
  title: string;
  isForAdministrators: boolean;
  content: ComponentType<{ route: Route }>;
}

const TABS: readonly Tab[] = [
  { id: "tokens", title: "Tokens", isForAdministrators: true, content: TokensTab },
  { id: "keys", title: "Keys", isForAdministrators: true, content: KeysTab },
  { id: "audit", title: "Audit log", isForAdministrators: true, content: AuditTab },
  { id: "browser", title: "This browser", isForAdministrators: false, content: BrowserTab },
];

export default function SettingsPage({ route }: { route: Route }) {
  const first = isAdministrator() ? "tokens" : "browser";
  const tab = TABS.find(({ id }) => id === (route.query.get("tab") ?? first)) ?? TABS[0];
  if (!tab) return null;
  const Content = tab.content;
  return (
    <main id="main" tabIndex={-1}>
      <h1>Settings</h1>
      <nav class="tabs" aria-label="Settings">
        {TABS.map(({ id, title }) => <a key={id} href={`/console/settings?tab=${id}`} aria-current={id === tab.id ? "page" : undefined}>{title}</a>)}
      </nav>
      {tab.isForAdministrators && !isAdministrator()
        ? <Notice tone="info">Only an administrator of all projects sees this. Sign in with a token of the role <code>admin</code> and the project <code>*</code>.</Notice>
        : <Content route={route} />}
    </main>
  );
}
