/** Calls that a user orders: one at a time, and the refusal stays beside the order. */

import { useSignal, type Signal } from "@preact/signals";

import { ApiError } from "../net/api";
import { announce, sentence } from "./notice";

export interface Attempt {
  /** Why the last call was refused; null before it and after a success. */
  problem: Signal<ApiError | null>;
  isBusy: Signal<boolean>;
  /** Make a call, unless one is under way. Returns whether it succeeded. */
  run: (call: () => Promise<void>) => Promise<boolean>;
}

export function useAttempt(): Attempt {
  const problem = useSignal<ApiError | null>(null);
  const isBusy = useSignal(false);
  const run = async (call: () => Promise<void>): Promise<boolean> => {
    if (isBusy.peek()) return false;
    isBusy.value = true;
    problem.value = null;
    try {
      await call();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      problem.value = error;
    } finally {
      isBusy.value = false;
    }
    return problem.value === null;
  };
  return { problem, isBusy, run };
}

/** Make a call, and announce `done` or the refusal after the words `failed`. Returns whether it succeeded. */
export async function announceCall(call: () => Promise<unknown>, done: string, failed = ""): Promise<boolean> {
  try {
    await call();
    if (done) announce("good", done);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    announce("error", failed + sentence(error.message));
    return false;
  }
}

/** Return the texts of a form's fields, without blanks around them. */
export function textsOf(event: SubmitEvent): Record<string, string> {
  event.preventDefault();
  const fields = new FormData(event.currentTarget as HTMLFormElement);
  return Object.fromEntries([...fields].map(([name, value]) => [name, String(value).trim()]));
}
