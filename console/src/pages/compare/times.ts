/** The times, the end and the machines of a job by name, to compare them. Pure. */

import { formatDuration, formatSpan, parseTime } from "../../core/format";
import type { JobSummary } from "../../net/types";

export function timesOf(summary: JobSummary): Map<string, string> {
  const texts = new Map<string, string>([["state", summary.state], ["attempts", String(summary.attempt)]]);
  add(texts, "created", summary.createTime);
  add(texts, "started", summary.startTime);
  add(texts, "ended", summary.endTime);
  add(texts, "waited", summary.startTime ? formatSpan(summary.createTime, summary.startTime, 0) : "");
  add(texts, "ran", summary.endTime ? formatSpan(summary.startTime, summary.endTime, parseTime(summary.endTime) ?? 0) : "");
  for (const [cause, count] of Object.entries(summary.restarts ?? {})) if (count > 0) texts.set(`restarts: ${cause}`, String(count));
  add(texts, "error", summary.error);
  add(texts, "creator", summary.creator);
  if (summary.outcome) {
    texts.set("time of all steps", formatDuration(summary.outcome.tookSeconds));
    texts.set("steps", String(summary.outcome.steps));
  }
  return texts;
}

export function machinesOf(summary: JobSummary): Map<string, string> {
  return new Map(summary.replicas.map((replica) => [replica.taskName, replica.node || "no node yet"]));
}

function add(texts: Map<string, string>, name: string, text: string | null | undefined): void {
  if (text) texts.set(name, text);
}
