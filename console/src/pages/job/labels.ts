/** Labels as the lines of a text, KEY=VALUE. Pure. */

/** Return labels as the lines of a text. */
export function labelText(labels: readonly (readonly [string, string])[]): string {
  return labels.map(([key, value]) => `${key}=${value}`).join("\n");
}

/** Return the labels that a text changes: a value, or null for a label that it lacks. */
export function changedLabels(
  labels: readonly (readonly [string, string])[], text: string,
): Record<string, string | null> {
  const before = new Map(labels);
  const after = new Map(text.split("\n").map((line) => line.trim()).filter(Boolean).map(pairOf));
  const changes: Record<string, string | null> = Object.create(null) as Record<string, string | null>;
  for (const key of before.keys()) if (!after.has(key)) changes[key] = null;
  for (const [key, value] of after) if (before.get(key) !== value) changes[key] = value;
  return changes;
}

function pairOf(line: string): [string, string] {
  const at = line.indexOf("=");
  return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}
