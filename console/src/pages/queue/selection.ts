/** The selected rows: at most 500, the most that one order may name. */

import { signal } from "@preact/signals";

const SELECTED_MAX = 500;

export class Selection {
  readonly uids = signal<ReadonlySet<string>>(new Set());
  /** The last uid that was selected alone; a range begins with it. */
  private anchor: string | null = null;

  /** `order` returns the uids of the table, in order. */
  constructor(private readonly order: () => readonly string[]) {}

  get size(): number {
    return this.uids.value.size;
  }

  /** Whether every row that could be selected is. */
  get isAll(): boolean {
    return this.size === Math.min(SELECTED_MAX, this.order().length);
  }

  has(uid: string): boolean {
    return this.uids.value.has(uid);
  }

  /** Select or deselect a row; with `isRange` select all rows since the last one. */
  toggle(uid: string, isRange: boolean): void {
    const uids = new Set(this.uids.peek());
    if (isRange && this.anchor !== null) for (const other of this.between(this.anchor, uid)) uids.add(other);
    else if (!uids.delete(uid)) uids.add(uid);
    this.anchor = uid;
    this.uids.value = new Set([...uids].slice(0, SELECTED_MAX));
  }

  toggleAll(): void {
    this.uids.value = new Set(this.size > 0 ? [] : this.order().slice(0, SELECTED_MAX));
  }

  clear(): void {
    this.anchor = null;
    if (this.uids.peek().size > 0) this.uids.value = new Set();
  }

  private between(left: string, right: string): readonly string[] {
    const order = this.order();
    const ends = [order.indexOf(left), order.indexOf(right)];
    const first = Math.min(...ends);
    return first < 0 ? [right] : order.slice(first, Math.max(...ends) + 1);
  }
}
