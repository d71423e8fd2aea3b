/** Keeps the typed text over a reload of the page, for as long as the tab is open. */

const KEY = "trainshed.draft";

interface Draft {
  text: string;
  location: string;
  /** Names the submission: sent again after a lost answer, it makes no second job. */
  requestId: string;
}

/** Return a random id of 32 characters; also pages over plain HTTP can make one. */
export function newRequestId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function readDraft(): Draft | null {
  try {
    const value = JSON.parse(sessionStorage.getItem(KEY) ?? "null") as Partial<Draft> | null;
    return typeof value?.text === "string" ? { text: value.text, location: value.location ?? "", requestId: value.requestId || newRequestId() } : null;
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
