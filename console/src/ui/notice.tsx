/** Messages in place, and short messages at the page's edge that screen readers announce. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { showHidden } from "../core/hidden";
import type { ApiError } from "../net/api";

type Tone = "info" | "good" | "warning" | "error";

/** Each tone has a sign besides its colour. */
const SIGNS: Readonly<Record<Tone, string>> = { info: "ℹ", good: "✓", warning: "▲", error: "✕" };

export function Notice(props: { tone: Tone; children: ComponentChildren }) {
  return (
    <div class={`notice ${props.tone}`} role={props.tone === "error" ? "alert" : "status"}>
      <span class="sign" aria-hidden="true">{SIGNS[props.tone]}</span>
      <div>{props.children}</div>
    </div>
  );
}

/** Shows a refusal in the server's words. `retry` adds a button. */
export function ErrorNotice(props: { error: ApiError; retry?: () => void }) {
  return (
    <Notice tone="error">
      {sentence(props.error.message)}
      {props.retry && <> <button type="button" class="link" onClick={props.retry}>Try again</button></>}
    </Notice>
  );
}

/** Return the text with a capital first letter, a full stop and its hidden characters; a first word that is a name stays as it is. */
export function sentence(text: string): string {
  const trimmed = showHidden(text.trim());
  const end = /[.!?:)]$/.test(trimmed) ? "" : ".";
  const isWord = /^[a-z]+([,;' ]|:\s|$)/.test(trimmed);
  return (isWord ? trimmed.charAt(0).toUpperCase() + trimmed.slice(1) : trimmed) + end;
}

interface Toast {
  id: number;
  tone: Tone;
  content: ComponentChildren;
}

const toasts = signal<Toast[]>([]);
let lastId = 0;

/** Show a message for 8 s (an error for 20 s). */
export function announce(tone: Tone, content: ComponentChildren): void {
  lastId += 1;
  const id = lastId;
  toasts.value = [...toasts.value.slice(-3), { id, tone, content }];
  setTimeout(() => dismiss(id), tone === "error" ? 20000 : 8000);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function Toasts() {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // Shown anew, the messages stand above a dialog that was opened meanwhile.
    element.current?.hidePopover();
    if (toasts.value.length > 0) element.current?.showPopover();
  }, [toasts.value]);
  return (
    <div class="toasts" role="status" aria-live="polite" popover="manual" ref={element}>
      {toasts.value.map((toast) => (
        <div key={toast.id} class={`toast ${toast.tone}`}>
          <span class="sign" aria-hidden="true">{SIGNS[toast.tone]}</span>
          <span>{typeof toast.content === "string" ? showHidden(toast.content) : toast.content}</span>
          <button type="button" class="plain" aria-label="Dismiss" onClick={() => dismiss(toast.id)}>✕</button>
        </div>
      ))}
    </div>
  );
}
