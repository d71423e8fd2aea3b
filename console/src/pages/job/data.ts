/** What the page of a job reads: its summary, its story, its documents, and how it keeps them new. */

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { jobResource } from "../../core/route";
import { ApiError, callApi } from "../../net/api";
import { recoveries } from "../../net/connection";
import { subscribe } from "../../net/stream";
import type { JobEvent, JobEvents, JobStreamEvent, JobSummary } from "../../net/types";

/** Events of one request, and the most requests: a story of more events begins with its newest. */
const EVENTS_PAGE = 1000;
const PAGES_MAX = 20;

/** A job's summary and events as signals. */
export class JobStore {
  readonly summary = signal<JobSummary | null>(null);
  readonly events = signal<readonly JobEvent[]>([]);
  readonly error = signal<ApiError | null>(null);
  /** True after an order deleted the job here. */
  readonly deleted = signal(false);
  readonly resource: string;
  private stop = new AbortController();
  private isReadingEvents = false;
  private hasNewEvents = false;

  constructor(readonly project: string, readonly job: string) {
    this.resource = jobResource(project, job);
  }

  /** Read the summary and the new events. */
  async reload(): Promise<void> {
    try {
      this.take(await callApi<JobSummary>("GET", this.resource, { signal: this.stop.signal }));
    } catch (error) {
      if (this.stop.signal.aborted || !(error instanceof ApiError) || error.isAway) return;
      this.error.value = error;
    }
  }

  take(summary: JobSummary): void {
    this.summary.value = summary;
    this.error.value = null;
    void this.readEvents();
  }

  begin(): () => void {
    this.stop = new AbortController();
    const end = subscribe(`job:${this.project}/${this.job}`, (event) => {
      const summary = (event.data as Partial<JobStreamEvent> | null)?.summary;
      if (summary) this.take(summary);
      else void this.reload();
    });
    void this.reload();
    return () => {
      this.stop.abort();
      end();
    };
  }

  private async readEvents(): Promise<void> {
    this.hasNewEvents = true;
    if (this.isReadingEvents) return;
    this.isReadingEvents = true;
    try {
      while (this.hasNewEvents) {
        this.hasNewEvents = false;
        await this.readEventPages();
      }
    } catch (error) {
      if (!(error instanceof ApiError) && !this.stop.signal.aborted) throw error;
    } finally {
      this.isReadingEvents = false;
    }
  }

  private async readEventPages(): Promise<void> {
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const after = this.events.value[this.events.value.length - 1]?.seq ?? 0;
      const query = { after, limit: EVENTS_PAGE };
      const { events } = await callApi<JobEvents>("GET", `${this.resource}/events`, { query, signal: this.stop.signal });
      if (events.length > 0) this.events.value = [...this.events.value, ...events];
      if (events.length < EVENTS_PAGE) return;
    }
  }
}

/** Read a job while the component is mounted. */
export function useJob(project: string, job: string): JobStore {
  const store = useMemo(() => new JobStore(project, job), [project, job]);
  useEffect(() => store.begin(), [store]);
  useEffect(() => {
    if (recoveries.value > 0) void store.reload();
  }, [recoveries.value]);
  return store;
}
