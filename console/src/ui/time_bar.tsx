/** Seconds in parts as one bar, whose parts differ in colour and pattern, with a table of them below. */

import { formatDuration } from "../core/format";
import { formatShare, sharesOf } from "../core/observed";

export type Shares = ReturnType<typeof sharesOf>;

export function TimeBar({ shares, label }: { shares: Shares; label: string }) {
  const words = shares.map(({ title, share }) => `${title} ${formatShare(share)}`).join(", ");
  return (
    <div class="time-bar" role="img" aria-label={`${label}: ${words || "no time"}`}>
      {shares.map(({ id, title, seconds, share }) => (
        <span key={id} class={`bucket b-${id}`} style={{ flexGrow: share }} title={`${title}: ${formatDuration(seconds)}, ${formatShare(share)}`}>
          {share > 0.14 ? title : ""}
        </span>
      ))}
    </div>
  );
}
