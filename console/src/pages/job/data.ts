/** What the page of a job reads: its summary, its story, its documents, and how it keeps them new. */

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { jobResource } from "../../core/route";
import { ApiError, callApi } from "../../net/api";
import { subscribe } from "../../net/stream";
import type { JobEvent, JobEvents, JobStreamEvent, JobSummary } from "../../net/types";
import { useRecovery } from "../../ui/resource";
import type { JobFailure } from "./failure";

/** Events of one request, and the most requests for one change: further events come with the next change. */
const EVENTS_PAGE = 1000;
const PAGES_MAX = 20;

/** A job's summary and events as signals. */
export class JobStore {
  readonly summary = signal<JobSummary | null>(null);
  readonly events = signal<readonly JobEvent[]>([]);
  readonly error = signal<ApiError | null>(null);
  /** True after an order deleted the job here. */
  readonly deleted = signal(false);
  /** Why the job failed; "loading" for a job that had failed when the page was opened. */
  readonly failure = signal<JobFailure | "loading" | null>(null);
  isFailureRead = false;
  readonly resource: string;
  private turn = 0;
  private stop = new AbortController();
  private isReadingEvents = false;
  private hasNewEvents = false;

  constructor(readonly project: string, readonly job: string) {
    this.resource = jobResource(project, job);
  }

  /** Read the summary and the new events; an answer that an event of the stream has overtaken is dropped. */
  async reload(): Promise<void> {
    const turn = (this.turn += 1);
    try {
      const summary = await callApi<JobSummary>("GET", this.resource, { signal: this.stop.signal });
      if (this.turn === turn) this.take(summary);
    } catch (error) {
      if (this.stop.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      if (!error.isAway && this.turn === turn) this.error.value = error;
    }
  }

  take(summary: JobSummary): void {
    this.turn += 1;
    if (this.summary.peek() === null && summary.state === "FAILED") this.failure.value = "loading";
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
  useRecovery(() => void store.reload());
  return store;
}
