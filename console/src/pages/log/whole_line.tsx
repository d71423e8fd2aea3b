/** The dialog with one line that is too long for the view. */

import { formatBytes } from "../../core/format";
import { copyText } from "../../ui/clipboard";
import { Dialog } from "../../ui/dialog";
import { StyledText } from "./line";
import { stampText, type LogRow } from "./rows";

export function WholeLine({ row, raw, onClose, onSave }: { row: LogRow; raw: boolean; onClose: () => void; onSave: () => void }) {
  return (
    <Dialog title={`${row.task}, ${stampText(row.stamp)}`} onClose={onClose}>
      <pre class="log-whole" tabIndex={0}>
        <StyledText text={row.text} raw={raw} />
      </pre>
      {row.cut > 0 && <p>The line goes on for {formatBytes(row.cut)}, which only the download has.</p>}
      <footer class="actions">
        {row.cut > 0 && <button type="button" onClick={onSave}>Download the log</button>}
        <button type="button" onClick={() => void copyText(row.text, "line")}>Copy</button>
      </footer>
    </Dialog>
  );
}
