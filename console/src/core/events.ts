/** Server-sent events of the stream. Pure. */

export interface StreamEvent {
  /**
   * "ready" after each connect, after too many changes, and every 5 s while polling: read again what
   * the topic shows. Else the topic's first word: "queue", "job", "log", "nodes", "study".
   */
  type: string;
  data: unknown;
  /** The topic as the page wrote it; absent for an event of all topics. */
  topic?: string;
}

/** Return the event of one block of the stream, or null for a comment. Throws SyntaxError. */
export function parseEvent(block: string): StreamEvent | null {
  let type = "";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) type = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  if (type === "") return null;
  const value = data.length > 0 ? (JSON.parse(data.join("\n")) as unknown) : null;
  const topic = (value as { topic?: unknown } | null)?.topic;
  return { type, data: value, ...(typeof topic === "string" ? { topic } : {}) };
}
