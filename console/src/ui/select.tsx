/** A list to choose one of. */

interface SelectProps {
  label: string;
  value: string;
  /** Pairs of a value and its title. */
  options: readonly (readonly [string, string])[];
  onChoose: (value: string) => void;
}

export function Select({ label, value, options, onChoose }: SelectProps) {
  return (
    <select aria-label={label} value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
      {options.map(([option, title]) => <option key={option} value={option}>{title}</option>)}
    </select>
  );
}
