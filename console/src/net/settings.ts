/** Reads and writes choices that a browser keeps for its user; without storage they last a visit. */

const PREFIX = "trainshed.";

export function readChoice(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function writeChoice(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // The choice is lost at the next visit.
  }
}

/** Call `handler` when another tab writes or removes a choice. */
export function onChoice(name: string, handler: () => void): void {
  addEventListener("storage", (event) => event.key === PREFIX + name && handler());
}
