/** Choices that this browser keeps, and its sign-in. */

import { roleOf, session } from "../../net/session";
import { KeysSwitch, openKeysHelp } from "../../ui/keys";
import { leave } from "../../ui/sign_out";
import { ThemeChoice } from "../../ui/theme";
import { Time } from "../../ui/time";

export function BrowserTab() {
  const user = session.value;
  return (
    <section aria-label="This browser">
      <h2>Sign-in</h2>
      {user && (
        <p>
          {user.anonymous ? "The server accepts calls without a token." : <>Signed in as <b>{user.name}</b>, {roleOf(user)}</>}
          {user.until && <>, until <Time value={user.until} /></>}.
        </p>
      )}
      {user && !user.anonymous && (
        <p class="orders">
          <button type="button" onClick={() => void leave(false)}>Sign out</button>
          <button type="button" onClick={() => void leave(true)}>Sign out of all browsers with this token</button>
        </p>
      )}
      <h2>Theme</h2>
      <ThemeChoice />
      <h2>Keys</h2>
      <KeysSwitch />
      <p><button type="button" onClick={openKeysHelp}>List the keys</button></p>
      {user && <p class="hint">Trainshed {user.version}</p>}
    </section>
  );
}
