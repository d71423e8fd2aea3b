/** Choices that this browser keeps, and its sign-in. */

import { session } from "../../net/session";
import { keysEnabled, openKeysHelp, setKeysEnabled } from "../../ui/keys";
import { leave } from "../../ui/sign_out";
import { chooseTheme, theme, THEMES } from "../../ui/theme";
import { Time } from "../../ui/time";

export function BrowserTab() {
  const user = session.value;
  return (
    <section aria-label="This browser">
      <h2>Sign-in</h2>
      {user && (
        <p>
          {user.anonymous ? "The server accepts calls without a token." : <>Signed in as <b>{user.name}</b>, {user.role.toLowerCase()} of {user.project === "*" ? "all projects" : `project ${user.project}`}</>}
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
      <fieldset class="themes">
        <legend class="hidden-text">Theme</legend>
        {THEMES.map((choice) => <label key={choice}><input type="radio" name="own-theme" checked={theme.value === choice} onChange={() => chooseTheme(choice)} /> {choice}</label>)}
      </fieldset>
      <h2>Keys</h2>
      <label class="check"><input type="checkbox" checked={keysEnabled.value} onChange={(event) => setKeysEnabled(event.currentTarget.checked)} /> Single keys act (never in a text field)</label>
      <p><button type="button" onClick={openKeysHelp}>List the keys</button></p>
      {user && <p class="hint">Trainshed {user.version}</p>}
    </section>
  );
}
