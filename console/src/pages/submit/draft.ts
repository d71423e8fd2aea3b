/** Keeps the typed text over a reload of the page, for as long as the tab is open. */

const KEY = "trainshed.draft";

export interface Draft {
  text: string;
  location: string;
}

export function readDraft(): Draft | null {
  try {
    const value = JSON.parse(sessionStorage.getItem(KEY) ?? "null") as Partial<Draft> | null;
    return typeof value?.text === "string" ? { text: value.text, location: value.location ?? "" } : null;
  } catch {
    return null;
  }
}

export function writeDraft(draft: Draft | null): void {
  try {
    if (draft?.text) sessionStorage.setItem(KEY, JSON.stringify(draft));
    else sessionStorage.removeItem(KEY);
  } catch {
    // A browser without storage keeps the text only while the page is open.
  }
}
