/** The present time as a signal that changes every second while the page is visible. */

import { signal } from "@preact/signals";

/** Milliseconds since 1970. */
export const now = signal(Date.now());

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1000);
}
