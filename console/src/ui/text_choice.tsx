/** A field whose text is taken at Enter or when it loses the focus. */

import { useSignal } from "@preact/signals";

interface TextChoiceProps {
  /** The name of the field, if no label element has it. */
  label?: string;
  placeholder?: string;
  class?: string;
  inputMode?: "numeric";
  value: string;
  /** The id of a datalist with proposals. */
  list?: string;
  onChoose: (value: string) => void;
}

/** The typed text stays while the page is drawn anew; `value` comes back when the text was taken. */
export function TextChoice({ label, value, list, onChoose, ...attributes }: TextChoiceProps) {
  const typed = useSignal<string | null>(null);
  const choose = (text: string): void => {
    typed.value = null;
    onChoose(text.trim());
  };
  return (
    <input {...attributes} list={list} aria-label={label} value={typed.value ?? value}
      onInput={(event) => (typed.value = event.currentTarget.value)} onChange={(event) => choose(event.currentTarget.value)} />
  );
}
