/** Light, dark, or what the system says. */

import { signal } from "@preact/signals";
import { useId } from "preact/hooks";

import { readChoice, writeChoice } from "../net/settings";

type Theme = "light" | "dark" | "system";

const THEMES: readonly Theme[] = ["light", "dark", "system"];

const stored = readChoice("theme");
const theme = signal<Theme>(stored === "light" || stored === "dark" ? stored : "system");

const systemDark = matchMedia("(prefers-color-scheme: dark)");

/** True while the page is dark; charts and the editor choose their colours by it. */
export const isDark = signal(false);

function update(): void {
  isDark.value = theme.value === "dark" || (theme.value === "system" && systemDark.matches);
}

function chooseTheme(choice: Theme): void {
  theme.value = choice;
  writeChoice("theme", choice === "system" ? null : choice);
  if (choice === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  update();
}

update();
systemDark.addEventListener("change", update);

export function ThemeChoice() {
  const name = useId();
  return (
    <fieldset class="themes">
      <legend class="hidden-text">Theme</legend>
      {THEMES.map((choice) => (
        <label key={choice}><input type="radio" name={name} checked={theme.value === choice} onChange={() => chooseTheme(choice)} /> {choice}</label>
      ))}
    </fieldset>
  );
}
