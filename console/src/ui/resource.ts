/** Reads a native resource for a component: its value, its error, and a way to read it again. */

import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { ApiError } from "../net/api";
import { recoveries } from "../net/connection";

export interface Resource<T> {
  /** The last value, kept while it is read again; null before the first. */
  value: Signal<T | null>;
  /** The last refusal; null after a success. A server that is away is none: the frame shows it. */
  error: Signal<ApiError | null>;
  /** True during the first read. */
  loading: Signal<boolean>;
  reload: () => void;
}

/** Call `read` now, whenever `key` changes, and when the server is back after an outage. */
export function useResource<T>(key: string, read: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const value = useSignal<T | null>(null);
  const error = useSignal<ApiError | null>(null);
  const loading = useSignal(true);
  const round = useSignal(0);
  const isBack = recoveries.value;
  useEffect(() => {
    const stop = new AbortController();
    read(stop.signal).then(
      (answer) => {
        if (stop.signal.aborted) return;
        value.value = answer;
        error.value = null;
        loading.value = false;
      },
      (reason: unknown) => {
        if (stop.signal.aborted) return;
        loading.value = false;
        if (!(reason instanceof ApiError)) throw reason;
        if (!reason.isAway) error.value = reason;
      },
    );
    return () => stop.abort();
  }, [key, round.value, isBack]);
  useEffect(() => {
    value.value = null;
    error.value = null;
    loading.value = true;
  }, [key]);
  return { value, error, loading, reload: () => (round.value += 1) };
}

/** Call `run` whenever the server is back after an outage. */
export function useRecovery(run: () => void): void {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    const before = recoveries.peek();
    return recoveries.subscribe((count) => count > before && latest.current());
  }, []);
}

/**
 * Read a resource, and again every `everyMs` while the page is visible and no read is on its way; 0: only once.
 * The old value stays meanwhile.
 */
export function useRefreshed<T>(key: string, everyMs: number, read: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const isReading = useRef(false);
  const resource = useResource(key, (signal) => {
    isReading.current = true;
    return read(signal).finally(() => (isReading.current = signal.aborted && isReading.current));
  });
  const latest = useRef(resource);
  latest.current = resource;
  useEffect(() => {
    if (everyMs === 0) return;
    const timer = setInterval(() => document.hidden || isReading.current || latest.current.reload(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return resource;
}
