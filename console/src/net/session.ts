/** Who is signed in, and calls that wait until the user has signed in again over a page. */

import { signal } from "@preact/signals";

import { readChoice, writeChoice } from "./settings";
import type { Session } from "./types";

export const CSRF = "csrf";

/** The present sign-in, or null before the first answer and when signed out. */
export const session = signal<Session | null>(null);

/** True while a call waits for the user to sign in over the page. */
export const signInNeeded = signal(false);

let waiting: Array<() => void> = [];

/**
 * Return the header that each call of this page needs, besides the cookie. The browser gives cookies to
 * servers on other ports of this host too, but what a page stores only to its own origin.
 */
export function csrfHeader(): Record<string, string> {
  const csrf = readChoice(CSRF) ?? session.peek()?.csrf;
  return csrf ? { "X-Trainshed-Csrf": csrf } : {};
}

/** Forget the sign-in, in all tabs. */
export function dropSession(): void {
  session.value = null;
  writeChoice(CSRF, null);
}

/** Store a sign-in and let the waiting calls go on. */
export function acceptSession(answer: Session): void {
  session.value = answer;
  if (answer.csrf) writeChoice(CSRF, answer.csrf);
  signInNeeded.value = false;
  const calls = waiting;
  waiting = [];
  for (const resume of calls) resume();
}

/** Show the sign-in dialog over the page; resolves when the user has signed in. */
export function askForSignIn(): Promise<void> {
  signInNeeded.value = true;
  return new Promise((resolve) => waiting.push(resolve));
}

/** Return what a user may do, and where: "admin of all projects". */
export function roleOf({ role, project }: Session): string {
  return `${role.toLowerCase()} of ${project === "*" ? "all projects" : `project ${project}`}`;
}

/** Return whether the user may submit and cancel jobs; a VIEWER may not. */
export function maySubmit(): boolean {
  return session.value !== null && session.value.role !== "VIEWER";
}

/** Return whether the user administers all projects. */
export function isAdministrator(): boolean {
  return session.value?.role === "ADMIN" && session.value.project === "*";
}
