/** The dialog that goes to a line or a time. */

import { useSignal } from "@preact/signals";

import { formatCount } from "../../core/format";
import { Dialog } from "../../ui/dialog";
import type { LogController } from "./controller";
import { parseJump, stampText } from "./rows";

interface JumpProps {
  controller: LogController;
  utc: boolean;
  onClose: () => void;
}

export function JumpDialog({ controller, utc, onClose }: JumpProps) {
  const problem = useSignal("");
  const rows = controller.feed.rows.peek();
  const day = controller.viewport.firstRow(rows) ?? rows[rows.length - 1];
  const dayMs = day ? Number(day.stamp.slice(0, -6)) : Date.now();
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget as HTMLFormElement).get("target") ?? "");
    const target = parseJump(text, dayMs, utc);
    if (target === null) {
      problem.value = "The text is neither a number nor a time such as 14:02:10 or 2026-11-29T14:02.";
      return;
    }
    onClose();
    void ("line" in target ? controller.toNumber(target.line) : controller.toStamp(target.stamp));
  };
  const total = controller.feed.total.value;
  return (
    <Dialog title="Go to a line or a time" onClose={onClose}>
      <form onSubmit={submit}>
        <label for="jump-target">Line{total === null ? "" : ` (1 to ${formatCount(total)})`} or time ({utc ? "UTC" : "local"})</label>
        <p><input id="jump-target" name="target" type="text" autocomplete="off" autofocus aria-describedby="jump-hint" /></p>
        <p class="hint" id="jump-hint">For example 500,000 or 14:02:10{day ? ` of ${stampText(day.stamp).slice(0, 10)}` : ""}.</p>
        {problem.value && <p role="alert">{problem.value}</p>}
        <footer class="actions"><button type="submit" class="primary">Go</button></footer>
      </form>
    </Dialog>
  );
}
