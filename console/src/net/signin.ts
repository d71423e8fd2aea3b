/** Makes, reads and ends the sign-in of this browser. */

import { signal } from "@preact/signals";

import { callApi } from "./api";
import { acceptSession, CSRF, dropSession } from "./session";
import { onChoice, readChoice } from "./settings";
import type { Session } from "./types";

/** Why the code of the address was refused; shown above the form for a token. */
export const codeProblem = signal("");

/** Read the sign-in of this browser's cookie. Throws ApiError: 401 without one. */
export async function loadSession(): Promise<void> {
  acceptSession(await callApi<Session>("GET", "/signin", { noSignIn: true, timeoutMs: 10000 }));
}

/** Sign in with a token, or with the code of `trainshed console`. Throws ApiError. */
export async function signIn(credential: { token: string } | { code: string }): Promise<void> {
  acceptSession(await callApi<Session>("POST", "/signin", { body: credential, noSignIn: true }));
}

/** End this sign-in; `everywhere` ends all sign-ins of the same token. Throws ApiError. */
export async function signOut(everywhere = false): Promise<void> {
  await callApi("DELETE", "/signin", { query: { everywhere: everywhere || null }, noSignIn: true });
  dropSession();
  location.assign("/console/signin");
}

/** Take the sign-in of another tab: a page shows for whom it acts, and one that asks to sign in goes on. */
export function followOtherTabs(): void {
  onChoice(CSRF, () => {
    if (readChoice(CSRF) !== null) loadSession().catch(() => undefined);
  });
}
