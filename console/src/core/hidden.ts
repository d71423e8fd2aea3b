/** Shows characters that move, hide or reorder others: names and lines are written by others. Pure. */

/** Names of the characters 0 to 31, shown instead of them: few fonts have their symbols. */
const CONTROLS = (
  "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
).split(" ");
const NAMES: ReadonlyMap<number, string> = new Map([
  [0x007f, "DEL"], [0x00ad, "SHY"], [0x061c, "ALM"], [0x180e, "MVS"], [0x200b, "ZWSP"], [0x200e, "LRM"],
  [0x200f, "RLM"], [0x2028, "LSEP"], [0x2029, "PSEP"], [0x202a, "LRE"], [0x202b, "RLE"],
  [0x202c, "PDF"], [0x202d, "LRO"], [0x202e, "RLO"], [0x2060, "WJ"], [0x2066, "LRI"],
  [0x2067, "RLI"], [0x2068, "FSI"], [0x2069, "PDI"], [0xfeff, "BOM"],
]);
/** Tabs and ends of lines stay; joiners of emoji and of scripts too. */
export const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e007f}]/gu;

/** Return the visible symbol of a hidden character: "⟨RLO⟩". */
export function symbolOf(code: number): string {
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  const name = CONTROLS[code] ?? NAMES.get(code) ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  return `\u27e8${name}\u27e9`;
}

/** Return the text with hidden characters as visible symbols. */
export function showHidden(text: string): string {
  return text.replace(HIDDEN, (character) => symbolOf(character.codePointAt(0) ?? 0));
}
