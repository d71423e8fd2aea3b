/** Reads a study and all of its trials, page by page, and again what the stream says has changed. */

import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { isEnded } from "../../core/queue";
import { jobResource } from "../../core/route";
import { ApiError, callApi } from "../../net/api";
import { recoveries } from "../../net/connection";
import { subscribe } from "../../net/stream";
import type { Importances, JobGoodput, MetricCurves, StudyDescription, TrialGoodput, Trials, TrialSummary } from "../../net/types";
import { useRefreshed, useResource, type Resource } from "../../ui/resource";

const PAGE = 5000;
/** Changes are read at most this often; of a large study less often, by the time that a read takes. */
const PAUSE_MS = 1000;
const PAUSE_SHARE = 5;

export interface StudyName {
  project: string;
  job: string;
}

const pathOf = ({ project, job }: StudyName): string => jobResource(project, job);

export interface StudyData {
  study: Resource<StudyDescription>;
  trials: Signal<readonly TrialSummary[]>;
  /** True until the first page of trials is there. */
  loading: Signal<boolean>;
  error: Signal<ApiError | null>;
  /** Grows whenever something of the study has changed: charts read their data again. */
  changes: Signal<number>;
}

const isFinal = (trial: TrialSummary): boolean => trial.state === "SUCCEEDED" || trial.state === "INFEASIBLE";

/** Return the number after which trials may have changed: the last of the ended ones before the first open one. */
function firstOpen(trials: readonly TrialSummary[]): number {
  const open = trials.find((trial) => !isFinal(trial));
  return (open?.number ?? (trials.at(-1)?.number ?? 0) + 1) - 1;
}

/** Read the trials after `after` and call `onPage` with each page, until the last one. Throws ApiError. */
async function readPages(name: StudyName, after: number, signal: AbortSignal, onPage: (page: TrialSummary[]) => void): Promise<void> {
  for (let last = after; ; ) {
    const { trials } = await callApi<Trials>("GET", `${pathOf(name)}/trials`, { query: { after: last, limit: PAGE }, signal });
    onPage(trials);
    last = trials.at(-1)?.number ?? last;
    if (trials.length < PAGE) return;
  }
}

/** Return the trials of a study, and the function that reads those that may have changed. */
function useTrials(name: StudyName) {
  const trials = useSignal<readonly TrialSummary[]>([]);
  const loading = useSignal(true);
  const error = useSignal<ApiError | null>(null);
  const reading = useRef<AbortController | null>(null);
  /** Whether an event came while the trials were read, so they are read again. */
  const isStale = useRef(false);
  const pauseMs = useRef(PAUSE_MS);
  const read = async (): Promise<void> => {
    isStale.current = reading.current !== null;
    if (isStale.current) return;
    const stop = new AbortController();
    reading.current = stop;
    const began = performance.now();
    const after = firstOpen(trials.peek());
    const fresh = trials.peek().filter((trial) => trial.number <= after);
    try {
      await readPages(name, after, stop.signal, (page) => {
        fresh.push(...page);
        // the charts are drawn for the first page, and then for twice as many trials each time
        if (page.length < PAGE || fresh.length >= 2 * trials.peek().length) trials.value = [...fresh];
        loading.value = false;
      });
      error.value = null;
    } catch (problem) {
      if (stop.signal.aborted) return;
      if (!(problem instanceof ApiError)) throw problem;
      if (!problem.isAway) error.value = problem;
      loading.value = false;
    } finally {
      pauseMs.current = Math.max(PAUSE_MS, PAUSE_SHARE * (performance.now() - began));
      if (reading.current === stop) {
        reading.current = null;
        if (isStale.current) void read();
      }
    }
  };
  return { trials, loading, error, reading, pauseMs, read };
}

export function useStudy(name: StudyName): StudyData {
  const study = useResource(pathOf(name), (signal) => callApi<StudyDescription>("GET", `${pathOf(name)}/study`, { signal }));
  const { trials, loading, error, reading, pauseMs, read } = useTrials(name);
  const changes = useSignal(0);
  useLive(name, pauseMs, () => reading.current !== null, () => {
    void read();
    study.reload();
    changes.value += 1;
  });
  const isBack = recoveries.value;
  useEffect(() => {
    void read();
    return () => {
      reading.current?.abort();
      reading.current = null;
    };
  }, [pathOf(name), isBack]);
  return { study, trials, loading, error, changes };
}

/** Call `onChange` after events of the study's topic, at most once in `pauseMs`, and not while `isBusy`. */
function useLive(name: StudyName, pauseMs: { current: number }, isBusy: () => boolean, onChange: () => void): void {
  const latest = useRef(onChange);
  latest.current = onChange;
  useEffect(() => {
    let timer = 0;
    const schedule = (): void => {
      if (timer) return;
      timer = window.setTimeout(() => {
        timer = 0;
        if (isBusy()) schedule();
        else latest.current();
      }, pauseMs.current);
    };
    const stop = subscribe(`study:${name.project}/${name.job}`, schedule);
    return () => (clearTimeout(timer), stop());
  }, [pathOf(name)]);
}

export function useCurves(name: StudyName, metric: string, byTime: boolean, changes: number): Resource<MetricCurves> {
  const query = { metric, byTime, trialCount: 1000, pointCount: 100 };
  return useFresh(`${pathOf(name)} ${metric} ${byTime}`, changes, (signal) => callApi<MetricCurves>("GET", `${pathOf(name)}/trials:curves`, { query, signal }));
}

/** Read importances, again after every tenth change and when the study ends. */
export function useImportances(name: StudyName, metric: string, state: string, changes: number): Resource<Importances> {
  return useFresh(`${pathOf(name)} ${metric} ${state}`, Math.floor(changes / 10), (signal) => callApi<Importances>("GET", `${pathOf(name)}/study:importances`, { query: { metric }, signal }));
}

/** Read a resource, and again when `changes` grows; the old value stays meanwhile. */
function useFresh<T>(key: string, changes: number, read: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const resource = useResource(key, read);
  const first = useRef(changes);
  useEffect(() => {
    if (changes !== first.current) resource.reload();
  }, [changes]);
  return resource;
}

const GOODPUT_MS = 60000;
/** The server needs some milliseconds a trial: the goodput of a study with more trials is read when a user wants it. */
export const GOODPUT_TRIALS_MAX = 100;

/** How a study used its machines, and each of its newest trials by number. */
export interface StudyGoodput {
  study: JobGoodput;
  trials: ReadonlyMap<number, TrialGoodput>;
}

/** Read the goodput of a study, again every minute until it has ended; its value is null before `isDue` and without an answer. */
export function useGoodput(name: StudyName, state: string, isDue: boolean): Resource<StudyGoodput | null> {
  const everyMs = isDue && !isEnded({ state }) ? GOODPUT_MS : 0;
  return useRefreshed(`goodput ${pathOf(name)} ${state} ${isDue}`, everyMs, async (signal): Promise<StudyGoodput | null> => {
    if (!isDue) return null;
    const study = await callApi<JobGoodput>("GET", `${pathOf(name)}/goodput`, { signal });
    return { study, trials: new Map(study.trials.map((trial) => [trial.trial, trial])) };
  });
}
