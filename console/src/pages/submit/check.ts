/** Checks the text on the server whenever typing stops; a newer text ends the check of an older one. */

import { useSignal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { ApiError, callApi } from "../../net/api";
import { recoveries } from "../../net/connection";
import type { TextCheck } from "../../net/types";

const PAUSE_MS = 150;

interface Checked {
  project: string;
  text: string;
  location: string;
  answer: TextCheck;
}

export interface Check {
  /** The last answer, also while a newer text is checked; null before the first. */
  last: Signal<Checked | null>;
  error: Signal<ApiError | null>;
  isChecking: Signal<boolean>;
}

/** Check the text in a project; an empty text or no project checks nothing. */
export function useCheck(project: string, text: string, location: string): Check {
  const last = useSignal<Checked | null>(null);
  const error = useSignal<ApiError | null>(null);
  const isChecking = useSignal(false);
  const isBack = recoveries.value;
  useEffect(() => {
    if (!project || !text.trim()) {
      if (project) void warmServer(project);
      last.value = null;
      error.value = null;
      isChecking.value = false;
      return;
    }
    const stop = new AbortController();
    isChecking.value = true;
    const check = async (): Promise<void> => {
      try {
        const answer = await callApi<TextCheck>("POST", `/projects/${encodeURIComponent(project)}/jobs:check`, { body: bodyOf(text, location), signal: stop.signal });
        if (stop.signal.aborted) return;
        last.value = { project, text, location, answer };
        error.value = null;
      } catch (problem) {
        if (stop.signal.aborted) return;
        if (!(problem instanceof ApiError)) throw problem;
        error.value = problem.isAway ? null : problem;
      }
      isChecking.value = false;
    };
    const timer = setTimeout(() => void check(), PAUSE_MS);
    return () => (clearTimeout(timer), stop.abort());
  }, [project, text, location, isBack]);
  return { last, error, isChecking };
}

let isWarm = false;

/** Let the server read what checks need while the user begins to type: the check of an empty text does. */
async function warmServer(project: string): Promise<void> {
  if (isWarm) return;
  isWarm = true;
  try {
    await callApi<TextCheck>("POST", `/projects/${encodeURIComponent(project)}/jobs:check`, { body: { text: "" } });
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    isWarm = false;
  }
}

/** Return the body of a check and of a submission. */
export function bodyOf(text: string, location: string): { text: string; location?: string } {
  return location ? { text, location } : { text };
}
