/** Formats times, durations, numbers and names of jobs. Pure: the present time is a parameter. */

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;

const pad = (value: number, width = 2): string => String(value).padStart(width, "0");

/** Return seconds as "12 s", "3 min 20 s", "3 h 02 min" or "2 d 4 h"; negative ones as "0 s". */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < MINUTE) return `${whole} s`;
  if (whole < 10 * MINUTE) return `${Math.floor(whole / MINUTE)} min ${pad(whole % MINUTE)} s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)} min`;
  if (whole < DAY) return `${Math.floor(whole / HOUR)} h ${pad(Math.floor((whole % HOUR) / MINUTE))} min`;
  return `${Math.floor(whole / DAY)} d ${Math.floor((whole % DAY) / HOUR)} h`;
}

const WORDS: ReadonlyArray<[number, string]> = [[DAY, "day"], [HOUR, "hour"], [MINUTE, "minute"], [1, "second"]];

/** Return seconds in words: "1 hour", "1 minute 30 seconds", "0.5 seconds". */
export function describeSeconds(seconds: number): string {
  const parts: string[] = [];
  let rest = Math.max(0, seconds);
  for (const [size, word] of WORDS) {
    const count = size === 1 ? Number(rest.toFixed(1)) : Math.floor(rest / size);
    if (count > 0) parts.push(`${count} ${word}${count === 1 ? "" : "s"}`);
    rest -= count * size;
  }
  return parts.join(" ") || "0 seconds";
}

/** Return the milliseconds since 1970 of an RFC 3339 time, or null if there is none. */
export function parseTime(text: string | null | undefined): number | null {
  if (!text) return null;
  const value = Date.parse(text);
  return Number.isNaN(value) ? null : value;
}

/** Return the time between two RFC 3339 times, or until `nowMs` if there is no end; "" without a start. */
export function formatSpan(start: string | null | undefined, end: string | null | undefined, nowMs: number): string {
  const from = parseTime(start);
  if (from === null) return "";
  return formatDuration(((parseTime(end) ?? nowMs) - from) / 1000);
}

/** Return a time as "2026-11-29 14:02:11" in the browser's zone, or in UTC. */
export function formatTime(text: string | null | undefined, utc = false): string {
  const value = parseTime(text);
  if (value === null) return "";
  const date = new Date(utc ? value : value - new Date(value).getTimezoneOffset() * 60000);
  return date.toISOString().slice(0, 19).replace("T", " ");
}

/** Return the time of day for a time of today, else the date and the time to the minute. */
export function formatShortTime(text: string | null | undefined, nowMs: number): string {
  const full = formatTime(text);
  const today = formatTime(new Date(nowMs).toISOString()).slice(0, 10);
  return full.startsWith(today) ? full.slice(11) : full.slice(0, 16);
}

/** Return an integer with separators: 41,200. */
export function formatCount(value: number): string {
  return String(Math.trunc(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** Return "1 job", "2 jobs", "5,000 jobs". */
export function formatPlural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** Return a number with up to `digits` significant digits; NaN and infinities by their names. */
export function formatNumber(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return formatCount(value);
  return String(Number(value.toPrecision(digits)));
}

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** Return bytes as "512 B", "31.2 GB"; powers of 1,000. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : Number(value.toPrecision(3))} ${UNITS[unit]}`;
}

/** Return accelerators as "4 × T4, 1 × V100"; "" without any. Vendors' prefixes are left out. */
export function formatAccelerators(gpus: Readonly<Record<string, number>>): string {
  return Object.entries(gpus)
    .filter(([, count]) => count > 0)
    .map(([type, count]) => `${count} × ${shortAccelerator(type)}`)
    .join(", ");
}

/** Return "T4" for NVIDIA_TESLA_T4, "A100 80GB" for NVIDIA_A100_80GB. */
export function shortAccelerator(type: string): string {
  return type.replace(/^NVIDIA_(TESLA_)?/, "").replaceAll("_", " ");
}

/** Return the project and the job of a resource name `projects/P/…/J`, of a trial those of its study; null for another text. */
export function parseResource(name: string): { project: string; job: string } | null {
  const match = /^projects\/([^/]+)\/(?:.*\/)?([^/]+)$/.exec(name.replace(/\/trials\/[^/]+$/, ""));
  return match ? { project: match[1] ?? "", job: match[2] ?? "" } : null;
}

/** Return an argument as a POSIX shell reads it. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

/** Return the text of at most `length` characters; a cut one ends in "…". */
export function shorten(text: string, length: number): string {
  const characters = [...text];
  return characters.length <= length ? text : `${characters.slice(0, length - 1).join("")}…`;
}
