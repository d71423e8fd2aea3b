/** What surrounds a chart: its title, a sentence that says what it shows, and the same as a table. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

import { VirtualTable } from "./virtual_table";

export interface TableData {
  heads: readonly string[];
  /** Called when the table is shown. */
  rows: () => readonly (readonly string[])[];
}

interface FigureProps {
  title: string;
  /** The chart's content in words, also for screen readers. */
  sentence: string;
  table?: TableData;
  /** Controls beside the title. */
  tools?: ComponentChildren;
  children: ComponentChildren;
  isWide?: boolean;
}

export function Figure({ title, sentence, table, tools, children, isWide }: FigureProps) {
  const isTable = useSignal(false);
  return (
    <section class={isWide ? "figure wide" : "figure"} aria-label={title}>
      <header>
        <h2>{title}</h2>
        <span class="tools">
          {tools}
          {table && <button type="button" class="link" aria-pressed={isTable.value} onClick={() => (isTable.value = !isTable.value)}>{isTable.value ? "as chart" : "as table"}</button>}
        </span>
      </header>
      <p class="hint">{sentence}</p>
      {table && isTable.value ? <DataTable title={title} data={table} /> : children}
    </section>
  );
}

interface NumberedRow {
  key: string;
  cells: readonly string[];
}

function DataTable({ title, data }: { title: string; data: TableData }) {
  const active = useSignal<string | null>(null);
  const rows: NumberedRow[] = data.rows().map((cells, index) => ({ key: String(index), cells }));
  const columns = data.heads.map((head, index) => ({
    id: head, title: head, width: index === data.heads.length - 1 ? "minmax(8rem, 1fr)" : "minmax(6rem, 10rem)", cell: (row: NumberedRow) => row.cells[index] ?? "",
  }));
  return (
    <div class="data-table">
      <VirtualTable label={title} columns={columns} rows={rows} rowKey={(row) => row.key} rowHeight={28} active={active.value} onActivate={(key) => (active.value = key)} />
    </div>
  );
}
