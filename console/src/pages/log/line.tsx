/** One line of a log: number, time, task and text. The text is never read as markup. */

import { Component } from "preact";

import { formatBytes, formatCount } from "../../core/format";
import { cutText, DRAWN_LENGTH_MAX, splitLine, type TextRange } from "./pieces";
import { isGrave, stampText, timeText, type LogRow, type TimeStyle } from "./rows";

/** What all lines of a view share; a new object draws the lines again. */
export interface LineStyle {
  readonly times: TimeStyle;
  readonly startMs: number;
  readonly raw: boolean;
  /** Return the hits of a line. */
  readonly hitsOf: (row: LogRow) => readonly TextRange[];
  /** The address of the page with the line of a stamp. */
  readonly hrefOf: (stamp: string) => string;
  readonly onLink: (row: LogRow) => void;
  readonly onCopy: (text: string, what: string) => void;
  readonly onShowAll: (row: LogRow) => void;
}

interface LineProps {
  row: LogRow;
  style: LineStyle;
  isCurrent: boolean;
}

export class Line extends Component<LineProps> {
  override shouldComponentUpdate(next: LineProps): boolean {
    return next.row !== this.props.row || next.style !== this.props.style || next.isCurrent !== this.props.isCurrent;
  }

  render({ row, style, isCurrent }: LineProps) {
    const classes = ["line", isGrave(row.severity) ? "grave" : row.severity === "WARNING" ? "warn" : "",
      row.number === null ? "service" : "", isCurrent ? "current" : ""];
    return (
      <div class={classes.filter(Boolean).join(" ")} data-key={row.key}>
        <LineNumber row={row} style={style} />
        {style.times !== "none" && (
          <button type="button" class="line-time" tabIndex={-1} title={`${stampText(row.stamp)}: copy`}
            onClick={() => style.onCopy(stampText(row.stamp), "time")}>{timeText(row.stamp, style.times, style.startMs)}</button>
        )}
        <span class="line-task">{row.task}</span>
        <span class="line-severity" title={row.severity}>{SIGNS[row.severity] ?? ""}</span>
        <LineText row={row} style={style} />
      </div>
    );
  }
}

/** Severities have a letter besides their colour. */
const SIGNS: Readonly<Record<string, string>> = { WARNING: "W", ERROR: "E", CRITICAL: "C", DEBUG: "D" };

/** A text without marks and links, for places outside of the log. */
export function StyledText({ text, raw = false }: { text: string; raw?: boolean }) {
  return <>{splitLine(text, raw, []).map((piece, index) => <span key={index} class={piece.classes}>{piece.text}</span>)}</>;
}

function LineNumber({ row, style }: { row: LogRow; style: LineStyle }) {
  const follow = (event: MouseEvent): void => {
    event.preventDefault();
    style.onLink(row);
  };
  return (
    <a class="line-number" href={style.hrefOf(row.stamp)} tabIndex={-1} title="Copy a link to this line" onClick={follow}>
      {row.number === null ? "·" : formatCount(row.number)}
    </a>
  );
}

function LineText({ row, style }: { row: LogRow; style: LineStyle }) {
  const text = cutText(row.text, DRAWN_LENGTH_MAX);
  const left = row.text.length - text.length + row.cut;
  return (
    <span class="line-text">
      {splitLine(text, style.raw, style.hitsOf(row)).map((piece, index) => {
        const text = piece.isHit ? <mark>{piece.text}</mark> : piece.text;
        if (piece.link) return <a key={index} class={piece.classes} href={piece.link} target="_blank" rel="noopener noreferrer">{text}</a>;
        return piece.classes ? <span key={index} class={piece.classes}>{text}</span> : text;
      })}
      {left > 0 && <button type="button" class="link" onClick={() => style.onShowAll(row)}>… {formatBytes(left)} more</button>}
    </span>
  );
}
