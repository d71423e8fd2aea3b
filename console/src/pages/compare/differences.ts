// What differs between two values: two replicas' environments, or two jobs' documents.

/** One name with its two values; a value is undefined where the side lacks the name. */
export interface DifferenceRow {
  readonly name: string;
  readonly left: string | undefined;
  readonly right: string | undefined;
  readonly differs: boolean;
}

/** A document has at most this many values; the rest is cut off, and `flatten` says so. */
const VALUES_MAX = 5000;

/** Return the values of a JSON document by path: `trainingInput.workerConfig.count` to `3`. */
export function flatten(value: unknown): Map<string, string> {
  const texts = new Map<string, string>();
  addValues(texts, "", value);
  return texts;
}

function addValues(texts: Map<string, string>, path: string, value: unknown): void {
  if (texts.size >= VALUES_MAX) {
    texts.set("…", `more than ${VALUES_MAX} values; the rest is not compared`);
    return;
  }
  const children = childrenOf(path, value);
  if (children === null || children.length === 0) texts.set(path || "value", textOf(value));
  else for (const [name, child] of children) addValues(texts, name, child);
}

function childrenOf(path: string, value: unknown): [string, unknown][] | null {
  if (Array.isArray(value)) {
    const items: unknown[] = value;
    if (items.every((item) => typeof item !== "object" || item === null)) return null;
    return items.map((item, index) => [`${path}[${index}]`, item]);
  }
  if (typeof value !== "object" || value === null) return null;
  return Object.entries(value).map(([name, child]) => [path ? `${path}.${name}` : name, child]);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value) ?? "";
}

/** Return a row for every name of either side: rows that differ first, then by name. */
export function compareTexts(
  left: ReadonlyMap<string, string>, right: ReadonlyMap<string, string>,
): readonly DifferenceRow[] {
  const names = new Set([...left.keys(), ...right.keys()]);
  const rows = [...names].map((name) => rowOf(name, left.get(name), right.get(name)));
  return rows.sort(
    (a, b) => Number(b.differs) - Number(a.differs) || (a.name < b.name ? -1 : 1),
  );
}

function rowOf(name: string, left: string | undefined, right: string | undefined): DifferenceRow {
  return { name, left, right, differs: left !== right };
}

/** Return a text of JSON with one value a line; other texts unchanged. */
export function prettyText(text: string): string {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Return for each line of two texts whether the other text lacks it. */
export function unmatchedLines(text: string, other: string): ReadonlySet<number> {
  const counts = new Map<string, number>();
  for (const line of other.split("\n")) counts.set(line, (counts.get(line) ?? 0) + 1);
  const unmatched = new Set<number>();
  text.split("\n").forEach((line, index) => {
    const count = counts.get(line) ?? 0;
    if (count === 0) unmatched.add(index);
    else counts.set(line, count - 1);
  });
  return unmatched;
}
