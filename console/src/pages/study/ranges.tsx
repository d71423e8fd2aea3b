/** The ranges of parallel coordinates as fields: the same by keyboard as by dragging. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { showHidden } from "../../core/hidden";
import { HIGHEST, LOWEST, type Ranges, type StudyAxis } from "../../core/study";

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
      <summary>Ranges{count > 0 ? ` (${count})` : ""}</summary>
      {count > 0 && <button type="button" class="link" onClick={() => onRanges({})}>remove all</button>}
      <div class="range-fields">
        {axes.map((axis) => (
          <fieldset key={axis.id}>
            <legend>{showHidden(axis.id)}</legend>
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
      {axis.words.map((text, index) => <option key={text} value={index}>{showHidden(text)}</option>)}
    </select>
  );
}

function NumberFields({ axis, range, onRange }: FieldProps) {
  const [low, high] = range ?? [LOWEST, HIGHEST];
  const change = (next: Range): void => onRange(next[0] === LOWEST && next[1] === HIGHEST ? null : next);
  return (
    <>
      <NumberField label={`${axis.id} at least`} placeholder="from" value={low} none={LOWEST} onValue={(value) => change([value, high])} />
      <NumberField label={`${axis.id} at most`} placeholder="to" value={high} none={HIGHEST} onValue={(value) => change([low, value])} />
    </>
  );
}

interface NumberProps {
  label: string;
  placeholder: string;
  value: number;
  /** The value of an empty field. */
  none: number;
  onValue: (value: number) => void;
}

const shortNumber = (value: number): string => String(String(value).length < 10 ? value : Number(value.toPrecision(6)));

/** A field that keeps what one types until Enter or the next field, also while the page draws itself again. */
function NumberField({ label, placeholder, value, none, onValue }: NumberProps) {
  const shown = value === none ? "" : shortNumber(value);
  const text = useSignal(shown);
  useEffect(() => {
    text.value = shown;
  }, [shown]);
  const commit = (): void => {
    const typed = text.value.trim() === "" ? none : Number(text.value);
    if (Number.isFinite(typed)) onValue(typed);
    else text.value = shown;
  };
  return <input aria-label={label} placeholder={placeholder} size={9} value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} onChange={commit} />;
}
