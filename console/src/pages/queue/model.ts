/**
 * The rows of the queue. Open jobs are read whole and filtered here, so that typing needs no call;
 * ended ones are too many, so the server filters them and sends pages.
 */

import { batch, signal } from "@preact/signals";

import { countDifferences, ENDED_STATES, isEnded, orderRows, rowMatcher, type Amounts, type QueueFilter } from "../../core/queue";
import { ApiError, callApi, type QueryValue } from "../../net/api";
import type { StreamEvent } from "../../core/events";
import type { JobList, JobRow, QueueEvent } from "../../net/types";

const OPEN_PAGE = 5000;
const ENDED_PAGE = 500;
/** A page of open jobs that is longer than this is cut, and says so. */
export const OPEN_MAX = 20000;

export class QueueModel {
  readonly rows = signal<ReadonlyMap<string, JobRow>>(new Map());
  /** The uids that the table shows, in order. */
  readonly shown = signal<readonly string[]>([]);
  /** Rows that wait until the user's pointer leaves the table. */
  readonly pending = signal(0);
  /** Active jobs by state, whatever the filter. */
  readonly counts = signal<Readonly<Record<string, number>>>({});
  readonly error = signal<ApiError | null>(null);
  readonly isLoaded = signal(false);
  readonly isCut = signal(false);
  /** The server has more rows than were read. */
  readonly hasMore = signal(false);

  private filter: QueueFilter | null = null;
  private isHeld = false;
  private amounts: Amounts = new Map();
  private nextPage = "";
  /** The page of ended jobs that is being read. */
  private reading = "";
  private stop = new AbortController();

  constructor(readonly project: string) {}

  /** Stop all reads; the rows stay for a user who comes back. */
  close(): void {
    this.stop.abort();
    this.stop = new AbortController();
  }

  /** Show rows by another filter; reads from the server what it does not have. */
  setFilter(filter: QueueFilter): void {
    const before = this.filter;
    this.filter = filter;
    if (before === null || readKey(before) !== readKey(filter)) void this.reload(before !== null && before.show !== filter.show);
    else this.arrange(true);
  }

  /** While held, rows keep their order: new and gone ones are counted as pending. */
  setHeld(isHeld: boolean): void {
    if (this.isHeld === isHeld) return;
    this.isHeld = isHeld;
    this.arrange(!isHeld);
  }

  /** Take what the jobs have cost so far; the order changes if it is by cost. */
  setAmounts(amounts: Amounts): void {
    this.amounts = amounts;
    if (this.filter?.sort === "cost") this.arrange(!this.isHeld);
  }

  showPending(): void {
    this.arrange(true);
  }

  onEvent(event: StreamEvent): void {
    if (event.type === "ready") void (this.isOpenList() || !this.isLoaded.peek() ? this.reload(false) : this.readNewest());
    else if (event.type === "queue") this.apply(event.data as QueueEvent);
  }

  /** Read the first page, or all open jobs, again. */
  async reload(isOtherList: boolean): Promise<void> {
    this.stop.abort();
    const stop = (this.stop = new AbortController());
    if (isOtherList) this.replace([], "", false);
    await this.guarded(stop, async () => {
      const page = await this.readPage("", stop.signal);
      const jobs = [...page.jobs];
      let next = page.nextPageToken ?? "";
      while (this.isOpenList() && next && jobs.length < OPEN_MAX) {
        const more = await this.readPage(next, stop.signal);
        jobs.push(...more.jobs);
        next = more.nextPageToken ?? "";
      }
      batch(() => {
        if (page.counts) this.counts.value = page.counts;
        this.replace(jobs, next, true);
      });
    });
  }

  /** Read the first page again and keep the others. */
  private async readNewest(): Promise<void> {
    await this.guarded(this.stop, async () => {
      const page = await this.readPage("", this.stop.signal);
      this.apply({ jobs: page.jobs, ...(page.counts ? { counts: page.counts } : {}) }, true);
    });
  }

  /** Read the next page of ended jobs, if there is one. */
  async readMore(): Promise<void> {
    const token = this.nextPage;
    if (!token || token === this.reading || this.isOpenList()) return;
    this.reading = token;
    const stop = this.stop;
    await this.guarded(stop, async () => {
      const page = await this.readPage(token, stop.signal);
      this.replace([...this.rows.peek().values(), ...page.jobs], page.nextPageToken ?? "", true);
      this.arrange(true);
    });
    if (this.reading === token) this.reading = "";
  }

  private async guarded(stop: AbortController, work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.error.value = null;
    } catch (error) {
      if (stop.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      if (!error.isAway) this.error.value = error;
    }
  }

  private isOpenList(): boolean {
    return this.filter?.show === "open";
  }

  private readPage(token: string, stop: AbortSignal): Promise<JobList> {
    const filter = this.filter;
    const query: Record<string, QueryValue> = { label: filter?.label, pageToken: token };
    if (this.isOpenList()) Object.assign(query, { open: true, pageSize: OPEN_PAGE });
    else Object.assign(query, { pageSize: ENDED_PAGE, ...serverQuery(filter) });
    return callApi<JobList>("GET", `/projects/${encodeURIComponent(this.project)}/jobs`, { query, signal: stop });
  }

  private replace(jobs: readonly JobRow[], next: string, isLoaded: boolean): void {
    batch(() => {
      this.nextPage = next;
      this.hasMore.value = next !== "";
      this.rows.value = new Map(jobs.map((row) => [row.uid, row]));
      this.isLoaded.value = isLoaded;
      this.isCut.value = this.isOpenList() && next !== "";
      this.arrange(!this.isHeld);
    });
  }

  /** Take changed rows; new ones only if they match the label, which rows do not have. */
  private apply(event: QueueEvent, canAdd = !this.filter?.label): void {
    if (!this.isLoaded.peek()) return;
    const rows = new Map(this.rows.peek());
    // open rows of any filter are held, because another filter reads none; of ended ones only those listed
    const matches = this.filter && !this.isOpenList() ? rowMatcher(this.filter) : () => true;
    for (const row of event.jobs ?? []) if (rows.has(row.uid) || (canAdd && matches(row))) rows.set(row.uid, row);
    for (const uid of event.gone ?? []) rows.delete(uid);
    batch(() => {
      if (event.counts) this.counts.value = event.counts;
      this.rows.value = rows;
      this.arrange(!this.isHeld);
    });
  }

  /** Forget jobs that have ended while their rows were shown. */
  private dropEnded(): void {
    const rows = this.rows.peek();
    if ([...rows.values()].some(isEnded)) this.rows.value = new Map([...rows].filter(([, row]) => !isEnded(row)));
  }

  /** Compute the order; a held table takes it only when told to. */
  private arrange(isTaken: boolean): void {
    if (this.filter === null) return;
    if (isTaken && this.isOpenList()) this.dropEnded();
    const order = orderRows(this.rows.peek().values(), this.filter, Date.now(), this.amounts);
    batch(() => {
      if (isTaken) this.shown.value = order;
      else this.shown.value = this.shown.peek().filter((uid) => this.rows.peek().has(uid));
      this.pending.value = isTaken ? 0 : countDifferences(this.shown.peek(), order);
    });
  }
}

function serverQuery(filter: QueueFilter | null): Record<string, QueryValue> {
  if (filter === null) return {};
  const states = filter.states.length > 0 ? filter.states : filter.show === "ended" ? ENDED_STATES : [];
  return { state: states, kind: filter.kinds, creator: filter.creator, q: filter.text.trim() };
}

/** The last model: a user who comes back to the queue sees its rows at once. */
let last: QueueModel | null = null;

/** Return the model of a project: the last one, if it is of this project. */
export function modelOf(project: string): QueueModel {
  if (last === null || last.project !== project) last = new QueueModel(project);
  return last;
}

/** What the server's answer depends on. */
function readKey(filter: QueueFilter): string {
  const isOpen = filter.show === "open";
  return JSON.stringify([filter.show, filter.label, isOpen ? null : [filter.states, filter.kinds, filter.creator, filter.text.trim()]]);
}
