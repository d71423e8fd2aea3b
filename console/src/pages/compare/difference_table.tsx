/** Two columns of values: rows that differ first and marked, documents line by line. */

import { useSignal } from "@preact/signals";
import { Fragment } from "preact";

import { formatCount } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { prettyText, unmatchedLines, type DifferenceRow } from "./differences";

interface DifferenceTableProps {
  caption: string;
  left: string;
  right: string;
  rows: readonly DifferenceRow[];
  /** Whether a second side is chosen; else the table has one column of values. */
  hasRight?: boolean;
}

/** More rows than this appear on request. */
const SHOWN = 400;

export function DifferenceTable({ caption, left, right, rows, hasRight = true }: DifferenceTableProps) {
  const onlyDifferences = useSignal(false);
  const isAll = useSignal(false);
  const differing = rows.filter((row) => row.differs).length;
  const chosen = onlyDifferences.value && hasRight ? rows.filter((row) => row.differs) : rows;
  const shown = isAll.value ? chosen : chosen.slice(0, SHOWN);
  return (
    <section class="compare-table" aria-label={caption}>
      <h2>
        {caption} {hasRight && <span class="hint">{differing === 0 ? "no difference" : `${formatCount(differing)} of ${formatCount(rows.length)} differ`}</span>}
        {hasRight && differing > 0 && (
          <label class="check">
            <input type="checkbox" checked={onlyDifferences.value} onChange={(event) => (onlyDifferences.value = event.currentTarget.checked)} />
            only differences
          </label>
        )}
      </h2>
      {chosen.length > 0 && (
        <div class="scroll">
          <table>
            <thead><tr><th>Name</th><th>{left}</th>{hasRight && <th>{right}</th>}</tr></thead>
            <tbody>{shown.map((row) => <Row key={row.name} row={row} hasRight={hasRight} />)}</tbody>
          </table>
          {shown.length < chosen.length && <button type="button" onClick={() => (isAll.value = true)}>Show all {formatCount(chosen.length)}</button>}
        </div>
      )}
    </section>
  );
}

function Row({ row, hasRight }: { row: DifferenceRow; hasRight: boolean }) {
  const isMarked = hasRight && row.differs;
  return (
    <tr class={isMarked ? "differs" : ""}>
      <th scope="row">{isMarked && <span class="sign" title="The values differ">≠</span>} <DottedName name={showHidden(row.name)} /></th>
      <td><Value text={row.left} other={isMarked ? row.right : undefined} /></td>
      {hasRight && <td><Value text={row.right} other={isMarked ? row.left : undefined} /></td>}
    </tr>
  );
}

/** A long path of fields, which breaks behind its dots first. */
function DottedName({ name }: { name: string }) {
  return <>{name.split(/(?<=\.)/).map((part, index) => <Fragment key={index}>{part}<wbr /></Fragment>)}</>;
}

/** A value; lines that the other side lacks are marked when both have several. */
function Value({ text, other }: { text: string | undefined; other: string | undefined }) {
  if (text === undefined) return <span class="hint">not there</span>;
  const pretty = prettyText(text);
  if (!pretty.includes("\n")) return <code>{showHidden(pretty) || "(empty)"}</code>;
  const lines = pretty.split("\n");
  const unmatched = other === undefined ? new Set<number>() : unmatchedLines(pretty, prettyText(other));
  return (
    <details open={other !== undefined}>
      <summary><code>{showHidden(text.slice(0, 80))}{text.length > 80 ? "…" : ""}</code></summary>
      <pre tabIndex={0}>{lines.map((line, index) => unmatched.has(index) ? <mark key={index}>{showHidden(line)}{"\n"}</mark> : `${showHidden(line)}\n`)}</pre>
    </details>
  );
}
