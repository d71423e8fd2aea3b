/**
 * A table of many rows of one height, of which only the visible ones are elements. It is one stop of
 * the Tab key: arrows move the active row, whose links and buttons are then stops too.
 */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

import { offsetToShow, rowTop, totalHeight, visibleRange, type RowLayout } from "../core/rows";

export interface Column<R> {
  id: string;
  title: ComponentChildren;
  /** The width as a CSS grid track: "8rem", "minmax(10rem, 2fr)". */
  width: string;
  /** `isActive`: the row has the focus of the table, so its controls may be stops of the Tab key. */
  cell: (row: R, isActive: boolean) => ComponentChildren;
  /** Numbers stand at the right. */
  isNumber?: boolean;
  /** The column can be sorted by. */
  isSortable?: boolean;
}

export interface Sort {
  column: string;
  descending: boolean;
}

interface VirtualTableProps<R> {
  label: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  /** A key of a row that stays with it over updates. */
  rowKey: (row: R) => string;
  /** In pixels; 34 by default. */
  rowHeight?: number;
  sort?: Sort;
  onSort?: (column: string) => void;
  /** The key of the active row; null for none. */
  active: string | null;
  onActivate: (key: string) => void;
  /** Enter, or a double click. */
  onOpen?: (row: R) => void;
  selected?: ReadonlySet<string>;
  /** The space bar. */
  onSelect?: (row: R) => void;
  /** Shown under a row; at most one. */
  detail?: { key: string; content: ComponentChildren } | null;
  rowClass?: (row: R) => string;
  /** Where the table is scrolled to: it begins there, and writes where it is. */
  memory?: { top: number };
  /** The rows near the end are visible. */
  onEnd?: () => void;
}

const EXTRA_ROWS = 4;
const HEAD_HEIGHT = 34;

export function VirtualTable<R>(props: VirtualTableProps<R>) {
  const { columns, rows, rowKey, active, detail } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const detailHeight = useSignal(0);
  const layout: RowLayout = {
    count: rows.length,
    rowHeight: props.rowHeight ?? 34,
    detailIndex: detail ? rows.findIndex((row) => rowKey(row) === detail.key) : -1,
    detailHeight: detailHeight.value,
  };
  useScrollState(scroller, top, height, props.memory);
  useActiveInView(scroller, layout, active, () => rows.findIndex((row) => rowKey(row) === active));
  const range = visibleRange(layout, top.value, height.value, EXTRA_ROWS);
  const drawn = rows.slice(range.first, range.last);
  const id = useId();
  const activeRow = drawn.find((row) => rowKey(row) === active);
  const isAtEnd = rows.length > 0 && range.last === rows.length;
  useEffect(() => {
    if (isAtEnd) props.onEnd?.();
  }, [isAtEnd, rows.length]);
  const template = columns.map((column) => column.width).join(" ");
  return (
    <div class="table" role="grid" aria-label={props.label} aria-rowcount={rows.length + 1} aria-colcount={columns.length}
      ref={scroller} tabIndex={0} aria-activedescendant={activeRow && rowId(id, rowKey(activeRow))}
      aria-multiselectable={props.selected ? true : undefined} onKeyDown={(event) => onTableKey(event, props, height.peek())}>
      <TableHead {...props} template={template} />
      <div class="rows" role="rowgroup" style={{ height: `${totalHeight(layout)}px` }}>
        {drawn.map((row, index) => (
          <TableRow key={rowKey(row)} id={rowId(id, rowKey(row))} table={props} row={row} index={range.first + index} layout={layout} template={template} />
        ))}
        {layout.detailIndex >= 0 && <Detail layout={layout} height={detailHeight}>{detail?.content}</Detail>}
      </div>
    </div>
  );
}

const rowId = (table: string, key: string): string => `${table}-${key.replace(/\s/g, "_")}`;

function TableHead<R>(props: VirtualTableProps<R> & { template: string }) {
  return (
    <div class="head" role="rowgroup">
      <div class="row" role="row" aria-rowindex={1} style={{ gridTemplateColumns: props.template }}>
        {props.columns.map((column) => <HeadCell key={column.id} column={column} sort={props.sort} onSort={props.onSort} />)}
      </div>
    </div>
  );
}

interface HeadCellProps<R> {
  column: Column<R>;
  sort: Sort | undefined;
  onSort: ((column: string) => void) | undefined;
}

function HeadCell<R>({ column, sort, onSort }: HeadCellProps<R>) {
  const order = sort?.column !== column.id ? undefined : sort.descending ? "descending" : "ascending";
  const sign = order === "descending" ? " ▼" : order === "ascending" ? " ▲" : "";
  return (
    <div role="columnheader" aria-sort={order} class={column.isNumber ? "num" : ""}>
      {column.isSortable && onSort
        ? <button type="button" class="plain" onClick={() => onSort(column.id)}>{column.title}<span aria-hidden="true">{sign}</span></button>
        : column.title}
    </div>
  );
}

interface RowProps<R> {
  id: string;
  table: VirtualTableProps<R>;
  row: R;
  index: number;
  layout: RowLayout;
  template: string;
}

function TableRow<R>({ id, table, row, index, layout, template }: RowProps<R>) {
  const key = table.rowKey(row);
  const isActive = key === table.active;
  const isSelected = table.selected?.has(key) ?? false;
  const classes = ["row", isActive && "active", isSelected && "selected", table.rowClass?.(row)];
  const style = {
    gridTemplateColumns: template,
    transform: `translateY(${rowTop(layout, index)}px)`,
    height: `${layout.rowHeight}px`,
  };
  return (
    <div id={id} class={classes.filter(Boolean).join(" ")} role="row" aria-rowindex={index + 2} style={style}
      aria-selected={table.selected ? isSelected : undefined}
      onClick={() => table.onActivate(key)} onDblClick={(event) => !(event.target as Element).closest("a, button, input") && table.onOpen?.(row)}>
      {table.columns.map((column) => (
        <div key={column.id} role="gridcell" class={column.isNumber ? "num" : ""}>{column.cell(row, isActive)}</div>
      ))}
    </div>
  );
}

function Detail(props: { layout: RowLayout; height: { value: number }; children: ComponentChildren }) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const sizes = new ResizeObserver(() => (props.height.value = element.current?.offsetHeight ?? 0));
    if (element.current) sizes.observe(element.current);
    return () => {
      sizes.disconnect();
      props.height.value = 0;
    };
  }, []);
  const offset = rowTop(props.layout, props.layout.detailIndex) + props.layout.rowHeight;
  return (
    <div class="detail" role="row" ref={element} style={{ transform: `translateY(${offset}px)` }}>
      <div role="gridcell">{props.children}</div>
    </div>
  );
}

/** Steps of the keys in a focused table; the page of a table has `j` and `k` besides. */
function onTableKey<R>(event: KeyboardEvent, table: VirtualTableProps<R>, height: number): void {
  if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
  const index = table.rows.findIndex((row) => table.rowKey(row) === table.active);
  const page = Math.max(1, Math.floor((height - HEAD_HEIGHT) / (table.rowHeight ?? 34)) - 1);
  const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  const step = steps[event.key];
  const row = table.rows[index];
  if (step !== undefined) moveActive(table, index, step);
  else if (event.key === " " && row !== undefined && table.onSelect) table.onSelect(row);
  else if (event.key === "Enter" && row !== undefined && table.onOpen) table.onOpen(row);
  else return;
  event.preventDefault();
}

function moveActive<R>(table: VirtualTableProps<R>, index: number, step: number): void {
  const next = table.rows[Math.min(table.rows.length - 1, Math.max(0, index < 0 ? 0 : index + step))];
  if (next !== undefined) table.onActivate(table.rowKey(next));
}

type ElementRef = { current: HTMLDivElement | null };

function useScrollState(scroller: ElementRef, top: { value: number }, height: { value: number }, memory?: { top: number }): void {
  const present = useRef(memory);
  present.current = memory;
  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const onScroll = (): void => {
      top.value = element.scrollTop;
      if (present.current) present.current.top = element.scrollTop;
    };
    if (memory) element.scrollTop = memory.top;
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
function useActiveInView(scroller: ElementRef, layout: RowLayout, active: string | null, indexOf: () => number): void {
  useEffect(() => {
    const element = scroller.current;
    const index = active === null ? -1 : indexOf();
    if (!element || index < 0) return;
    const visible = element.clientHeight - HEAD_HEIGHT;
    element.scrollTop = offsetToShow(layout, index, element.scrollTop, visible);
  }, [active]);
}
