/** Colours of a scale from worse to better; told apart also without red and green. Pure. */

/** Dark blue to yellow; each theme uses the part with enough contrast to its ground. */
const STOPS: readonly (readonly [number, number, number])[] = [
  [68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37],
];
const PART = { light: [0, 0.72], dark: [0.3, 1] } as const;

/** Return the colour of a share from 0 (worst) to 1 (best). */
export function scaleColour(share: number, isDark: boolean): string {
  const [low, high] = isDark ? PART.dark : PART.light;
  // the better a trial, the more it stands out: dark on light, light on dark
  const inPart = isDark ? low + share * (high - low) : high - share * (high - low);
  const at = Math.min(Math.max(inPart, 0), 1) * (STOPS.length - 1);
  const index = Math.min(Math.floor(at), STOPS.length - 2);
  const [from, to] = [STOPS[index] ?? [0, 0, 0], STOPS[index + 1] ?? [0, 0, 0]];
  const mix = (channel: 0 | 1 | 2): number => Math.round(from[channel] + (to[channel] - from[channel]) * (at - index));
  return `rgb(${mix(0)} ${mix(1)} ${mix(2)})`.replaceAll(" ", ",");
}

/** Return the share of each value by its rank from 0 (worst) to 1 (best). */
export function rankShares(values: readonly number[], isBetter: (left: number, right: number) => boolean): number[] {
  const order = values.map((_, index) => index).sort((left, right) => {
    const [one, other] = [values[left] ?? 0, values[right] ?? 0];
    return isBetter(one, other) ? 1 : isBetter(other, one) ? -1 : 0;
  });
  const shares = new Array<number>(values.length).fill(1);
  order.forEach((index, rank) => (shares[index] = values.length > 1 ? rank / (values.length - 1) : 1));
  return shares;
}
