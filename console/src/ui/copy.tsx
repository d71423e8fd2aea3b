/** A button that copies a text. */

import { copyText } from "./clipboard";

/** `what` names the text in the message and for screen readers: "command". */
export function CopyButton({ text, what, label = "copy" }: { text: string; what: string; label?: string }) {
  return (
    <button type="button" class="link" aria-label={`${label}: ${what}`} onClick={() => void copyText(text, what)}>{label}</button>
  );
}
