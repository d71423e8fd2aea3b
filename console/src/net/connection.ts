/** Whether the server answers: after a failed call the page asks again at 1, 2, 5 and 10 s. */

import { signal } from "@preact/signals";

interface Outage {
  /** When the first call failed, in milliseconds since 1970. */
  since: number;
  /** What the server says, such as that its database is away; absent if it does not answer. */
  message?: string | undefined;
}

/** Whether the server can answer calls, and if not what it says. */
export interface Probed {
  isThere: boolean;
  message?: string;
}

/** The present outage, or null while the server answers. */
export const outage = signal<Outage | null>(null);

/** Grows by one whenever the server answers again: views read their data again. */
export const recoveries = signal(0);

const PAUSES_MS = [1000, 2000, 5000, 10000];

/** Return the pause in milliseconds before the attempt after `failures` failed ones. */
export function pauseAfter(failures: number): number {
  return PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)] ?? 10000;
}

let probing = false;

export function reportOutage(probe: () => Promise<Probed>, message?: string): void {
  const since = outage.value?.since ?? Date.now();
  if (outage.value === null || outage.value.message !== message) outage.value = { since, message };
  if (!probing) void probeUntilBack(probe);
}

export function reportAnswer(): void {
  if (outage.value === null) return;
  outage.value = null;
  recoveries.value += 1;
}

async function probeUntilBack(probe: () => Promise<Probed>): Promise<void> {
  probing = true;
  for (let failures = 0; outage.value !== null; failures += 1) {
    await new Promise((resolve) => setTimeout(resolve, pauseAfter(failures)));
    if (outage.value === null) break;
    const probed = await probe();
    if (probed.isThere) reportAnswer();
    else if (outage.value !== null) outage.value = { since: outage.value.since, message: probed.message };
  }
  probing = false;
}
