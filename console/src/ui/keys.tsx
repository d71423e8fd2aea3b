/** Single keys of the pages: pages register them, `?` lists them, a user can switch them off. */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { readChoice, writeChoice } from "../net/settings";
import { Dialog } from "./dialog";

interface KeyBinding {
  /** A key as `KeyboardEvent.key` names it, "g q" for two after each other, "Ctrl+F". */
  keys: string;
  label: string;
  run: (event: KeyboardEvent) => void;
}

interface Group {
  title: string;
  bindings: readonly KeyBinding[];
}

const groups = signal<Group[]>([]);
const isHelpOpen = signal(false);
/** WCAG 2.1.4: a user can switch off keys without a modifier. */
const keysEnabled = signal(readChoice("keys") !== "off");

function setKeysEnabled(enabled: boolean): void {
  keysEnabled.value = enabled;
  writeChoice("keys", enabled ? null : "off");
}

export function openKeysHelp(): void {
  isHelpOpen.value = true;
}

/** Bind keys while the component is mounted; the newest group that has a key gets it. */
export function useKeys(title: string, bindings: readonly KeyBinding[]): void {
  const latest = useRef(bindings);
  latest.current = bindings;
  useEffect(() => {
    const group = { title, get bindings() { return latest.current; } };
    groups.value = [...groups.value, group];
    return () => {
      groups.value = groups.value.filter((other) => other !== group);
    };
  }, []);
}

const FIELDS = "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable=true], [contenteditable=''], .cm-editor";

/** Return the name of a key press: "x", "Ctrl+F", "Shift+ArrowDown". */
export function nameOf(event: KeyboardEvent): string {
  const isText = event.key.length === 1;
  const isControl = event.ctrlKey || event.metaKey;
  const key = isControl && isText ? event.key.toUpperCase() : event.key;
  return `${isControl ? "Ctrl+" : ""}${event.shiftKey && !isText ? "Shift+" : ""}${key}`;
}

let prefix = "";
let prefixTimer = 0;

function onKeyDown(event: KeyboardEvent): void {
  if (event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  const name = nameOf(event);
  const hasModifier = event.ctrlKey || event.metaKey;
  const isInField = event.target instanceof Element && event.target.closest(FIELDS) !== null;
  const isControl = event.target instanceof Element && event.target.closest("a, button, summary, input, label") !== null;
  if (!hasModifier && (isInField || !keysEnabled.value)) return;
  if ((name === "Enter" || name === " ") && isControl) return;
  const all = groups.value.toReversed().flatMap((group) => group.bindings);
  const full = prefix ? `${prefix} ${name}` : name;
  const binding = all.find((candidate) => candidate.keys === full) ?? all.find((candidate) => candidate.keys === name);
  clearTimeout(prefixTimer);
  prefix = "";
  if (binding) {
    event.preventDefault();
    binding.run(event);
  } else if (all.some((candidate) => candidate.keys.startsWith(`${name} `))) {
    prefix = name;
    prefixTimer = window.setTimeout(() => (prefix = ""), 1500);
  }
}

export function startKeys(): void {
  document.addEventListener("keydown", onKeyDown);
}

export function KeysSwitch() {
  return (
    <label class="check">
      <input type="checkbox" checked={keysEnabled.value} onChange={(event) => setKeysEnabled(event.currentTarget.checked)} />
      Single keys act (never in a text field)
    </label>
  );
}

export function KeysHelp() {
  if (!isHelpOpen.value) return null;
  return (
    <Dialog title="Keys" onClose={() => (isHelpOpen.value = false)}>
      <KeysSwitch />
      <div class="keys">
        {groups.value.map((group) => (
          <section key={group.title}>
            <h3>{group.title}</h3>
            <dl>
              {group.bindings.map((binding) => (
                <div key={binding.keys}>
                  <dt><kbd>{binding.keys}</kbd></dt>
                  <dd>{binding.label}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
