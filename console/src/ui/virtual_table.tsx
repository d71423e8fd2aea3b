/**
 * A table of many rows of one height, of which only the visible ones are elements.
 * The body is as tall as the browser permits; beyond that its offset is scaled.
 */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { visibleRange } from "../core/rows";

export interface Column<R> {
  id: string;
  title: string;
  /** The width as a CSS grid track: "8rem", "minmax(10rem, 2fr)". */
  width: string;
  cell: (row: R) => ComponentChildren;
  /** Numbers stand at the right. */
  isNumber?: boolean;
  /** The column can be sorted by. */
  isSortable?: boolean;
}

export interface Sort {
  column: string;
  descending: boolean;
}

interface TableProps<R> {
  label: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  /** A key of a row that stays with it over updates. */
  rowKey: (row: R) => string;
  rowHeight?: number;
  sort?: Sort;
  onSort?: (column: string) => void;
  /** The key of the row with the focus; null for none. */
  active: string | null;
  onActivate: (key: string) => void;
  onOpen?: (row: R) => void;
  selected?: ReadonlySet<string>;
  /** Shown under an opened row; at most one is open. */
  detail?: { key: string; content: ComponentChildren } | null;
  rowClass?: (row: R) => string;
}

const EXTRA_ROWS = 6;

export function VirtualTable<R>(props: TableProps<R>) {
  const { columns, rows, rowKey, rowHeight = 36, active } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  useScrollState(scroller, top, height);
  useActiveRowInView(scroller, rows.findIndex((row) => rowKey(row) === active), rowHeight, active);
  const range = visibleRange(top.value, height.value, rowHeight, rows.length, EXTRA_ROWS);
  const template = columns.map((column) => column.width).join(" ");
  return (
    <div class="table" role="grid" aria-label={props.label} aria-rowcount={rows.length + 1} aria-colcount={columns.length}
      ref={scroller} tabIndex={0} aria-activedescendant={active ? rowId(active) : undefined} aria-multiselectable={props.selected ? true : undefined}>
      <TableHead {...props} template={template} />
      <div class="rows" role="rowgroup" style={{ height: `${rows.length * rowHeight}px` }}>
        {rows.slice(range.first, range.last).map((row, index) => (
          <TableRow key={rowKey(row)} table={props} row={row} index={range.first + index} template={template} height={rowHeight} />
        ))}
      </div>
    </div>
  );
}

const rowId = (key: string): string => `row-${key.replace(/\W/g, "-")}`;

function TableHead<R>(props: TableProps<R> & { template: string }) {
  const { columns, sort, onSort, template } = props;
  return (
    <div class="head" role="rowgroup">
      <div class="row" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
        {columns.map((column) => {
          const isSorted = sort?.column === column.id;
          const order = isSorted ? (sort.descending ? "descending" : "ascending") : undefined;
          return (
            <div key={column.id} role="columnheader" aria-sort={order} class={column.isNumber ? "num" : ""}>
              {column.isSortable && onSort
                ? <button type="button" class="plain" onClick={() => onSort(column.id)}>{column.title}<span aria-hidden="true">{isSorted ? (sort.descending ? " ▼" : " ▲") : ""}</span></button>
                : column.title}
            </div>
          );
        })}
      </div>
    </div>
  );
}

interface RowProps<R> {
  table: TableProps<R>;
  row: R;
  index: number;
  template: string;
  height: number;
}

function TableRow<R>({ table, row, index, template, height }: RowProps<R>) {
  const key = table.rowKey(row);
  const isActive = key === table.active;
  const isSelected = table.selected?.has(key);
  const classes = ["row", isActive ? "active" : "", isSelected ? "selected" : "", table.rowClass?.(row) ?? ""];
  return (
    <div id={rowId(key)} class={classes.join(" ")} role="row" aria-rowindex={index + 2} aria-selected={table.selected ? Boolean(isSelected) : undefined}
      style={{ gridTemplateColumns: template, transform: `translateY(${index * height}px)`, height: `${height}px` }}
      onMouseDown={() => table.onActivate(key)} onDblClick={() => table.onOpen?.(row)}>
      {table.columns.map((column) => (
        <div key={column.id} role="gridcell" class={column.isNumber ? "num" : ""}>{column.cell(row)}</div>
      ))}
    </div>
  );
}

type ElementRef = { current: HTMLDivElement | null };

function useScrollState(scroller: ElementRef, top: { value: number }, height: { value: number }): void {
  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const onScroll = (): void => {
      top.value = element.scrollTop;
    };
    const sizes = new ResizeObserver(() => (height.value = element.clientHeight));
    sizes.observe(element);
    element.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener("scroll", onScroll);
    };
  }, []);
}

/** Scroll so that the active row is visible, when another row becomes active. */
function useActiveRowInView(scroller: ElementRef, index: number, rowHeight: number, active: string | null): void {
  useEffect(() => {
    const element = scroller.current;
    if (!element || index < 0) return;
    const head = rowHeight;
    const rowTop = index * rowHeight;
    if (rowTop < element.scrollTop) element.scrollTop = rowTop;
    else if (rowTop + rowHeight > element.scrollTop + element.clientHeight - head) {
      element.scrollTop = rowTop + rowHeight - element.clientHeight + head;
    }
  }, [active]);
}
