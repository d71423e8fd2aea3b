/** The ranges of parallel coordinates as fields: the same by keyboard as by dragging. */

import type { Ranges, StudyAxis } from "../../core/study";

interface RangeProps {
  axes: readonly StudyAxis[];
  ranges: Ranges;
  onRanges: (ranges: Ranges) => void;
}

export function RangeFields({ axes, ranges, onRanges }: RangeProps) {
  const count = Object.keys(ranges).length;
  const without = (id: string): Ranges => Object.fromEntries(Object.entries(ranges).filter(([other]) => other !== id));
  return (
    <details class="ranges">
      <summary>Ranges{count > 0 ? ` (${count})` : ""} {count > 0 && <button type="button" class="link" onClick={(event) => (event.preventDefault(), onRanges({}))}>remove all</button>}</summary>
      <div class="range-fields">
        {axes.map((axis) => (
          <fieldset key={axis.id}>
            <legend>{axis.id}</legend>
            {axis.kind === "category"
              ? <WordField axis={axis} range={ranges[axis.id]} onRange={(range) => onRanges(range ? { ...ranges, [axis.id]: range } : without(axis.id))} />
              : <NumberFields axis={axis} range={ranges[axis.id]} onRange={(range) => onRanges(range ? { ...ranges, [axis.id]: range } : without(axis.id))} />}
          </fieldset>
        ))}
      </div>
    </details>
  );
}

type Range = readonly [number, number];

interface FieldProps {
  axis: StudyAxis;
  range: Range | undefined;
  onRange: (range: Range | null) => void;
}

function WordField({ axis, range, onRange }: FieldProps) {
  const word = range ? axis.words.findIndex((_, index) => index >= range[0] && index <= range[1]) : -1;
  return (
    <select aria-label={`${axis.id} is`} value={word} onChange={(event) => {
      const index = Number(event.currentTarget.value);
      onRange(index < 0 ? null : [index - 0.5, index + 0.5]);
    }}>
      <option value={-1}>any</option>
      {axis.words.map((text, index) => <option key={text} value={index}>{text}</option>)}
    </select>
  );
}

function NumberFields({ axis, range, onRange }: FieldProps) {
  const change = (side: 0 | 1, text: string): void => {
    const [low, high] = range ?? [-Number.MAX_VALUE, Number.MAX_VALUE];
    const value = text.trim() === "" ? NaN : Number(text);
    const fallback = side === 0 ? -Number.MAX_VALUE : Number.MAX_VALUE;
    const next = Number.isFinite(value) ? value : fallback;
    const changed: Range = side === 0 ? [next, high] : [low, next];
    onRange(changed[0] === -Number.MAX_VALUE && changed[1] === Number.MAX_VALUE ? null : changed);
  };
  const show = (value: number | undefined): string => (value === undefined || Math.abs(value) === Number.MAX_VALUE ? "" : String(Number(value.toPrecision(6))));
  return (
    <>
      <input aria-label={`${axis.id} at least`} placeholder="from" size={9} value={show(range?.[0])} onChange={(event) => change(0, event.currentTarget.value)} />
      <input aria-label={`${axis.id} at most`} placeholder="to" size={9} value={show(range?.[1])} onChange={(event) => change(1, event.currentTarget.value)} />
    </>
  );
}
