/** What a user chose for the view of a log: it is in the address, so that a link shows the same. */

import { setQuery } from "../../core/router";
import { TIMES, type LogFilter, type TimeStyle } from "./rows";
import type { LogQuery } from "./search";

export interface LogChoices {
  readonly filter: LogFilter;
  readonly query: LogQuery | null;
  readonly onlyHits: boolean;
  readonly wrap: boolean;
  readonly raw: boolean;
  readonly times: TimeStyle;
  /** The stamp of the line that the address names; null for the end of the log. */
  readonly stamp: string | null;
}

/** Return the choices in a query; unknown values count as absent. */
export function readChoices(query: URLSearchParams): LogChoices {
  const text = query.get("q") ?? "";
  const times = TIMES.find((style) => style === query.get("times")) ?? "local";
  const stamp = query.get("stamp") ?? "";
  return {
    filter: {
      task: query.get("task") ?? "",
      severity: query.get("severity") ?? "",
      attempt: query.get("attempt") ?? "",
      trial: query.get("trial") ?? "",
    },
    query: text ? { text, isExpression: query.has("regex"), matchesCase: query.has("case") } : null,
    onlyHits: query.has("hits"),
    wrap: query.has("wrap"),
    raw: query.has("raw"),
    times,
    stamp: /^\d{1,20}$/.test(stamp) ? stamp : null,
  };
}

/** Change a switch in the address. */
export function setSwitch(name: "hits" | "wrap" | "raw" | "regex" | "case", isOn: boolean): void {
  setQuery({ [name]: isOn ? "1" : null });
}

/** Change a filter; the line of the address may not match it, so the view begins anew. */
export function setFilter(name: keyof LogFilter, value: string): void {
  setQuery({ [name]: value || null, ...(name === "trial" ? { stamp: null } : {}) });
}

export function setTimes(style: TimeStyle): void {
  setQuery({ times: style === "local" ? null : style });
}

/** Return the next way to show times. */
export function nextTimes(style: TimeStyle): TimeStyle {
  return TIMES[(TIMES.indexOf(style) + 1) % TIMES.length] ?? "local";
}
