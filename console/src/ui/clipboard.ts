/** Copies text: without HTTPS and outside of this machine browsers offer only the older way. */

import { announce } from "./notice";

/** Copy `text` and say that `what` was copied. */
export async function copyText(text: string, what: string): Promise<void> {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copyBySelection(text);
    announce("good", `Copied the ${what}.`);
  } catch {
    announce("error", `The browser does not let this page copy the ${what}. Select it and press Ctrl+C.`);
  }
}

function copyBySelection(text: string): void {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden-text";
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  if (!isCopied) throw new Error("the browser refused");
}
