/** The state of a job, a trial or a node: a sign, a word, a colour. */

/** Signs differ in shape, so that no state is told by its colour alone. */
const SIGNS: Readonly<Record<string, string>> = {
  QUEUED: "◷", ENQUEUED: "◷", PREPARING: "◔", RUNNING: "▶", RESTARTING: "↻", CANCELLING: "◌",
  SUCCEEDED: "✓", FAILED: "✕", CANCELLED: "⊘",
  REQUESTED: "◷", ACTIVE: "▶", PAUSED: "◫", STOPPING: "◌", INFEASIBLE: "✕",
  READY: "✓", DRAINED: "⊘", MAINTENANCE: "◌",
};

export function StateMark({ state }: { state: string }) {
  return (
    <span class={`state s-${state.toLowerCase()}`}>
      <span aria-hidden="true">{SIGNS[state] ?? "·"}</span> {state}
    </span>
  );
}
