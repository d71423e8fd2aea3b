/** A modal dialog on the browser's own element, which holds the focus and gives it back. */

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  /** False: Escape does not close it. */
  closable?: boolean;
}

export function Dialog({ title, onClose, children, closable = true }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  const isLeaving = useRef(false);
  // before the next key, which is for the dialog
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => {
      isLeaving.current = true;
      dialog?.close(); // which gives the focus back: as long as the dialog is open, nothing else can have it
    };
  }, []);
  const cancel = (event: Event): void => {
    event.preventDefault();
    if (closable) onClose();
  };
  /** A browser closes a dialog at the second Escape, whatever the page does at the first. */
  const closed = (): void => {
    if (isLeaving.current) return;
    if (closable) onClose();
    else element.current?.showModal();
  };
  return (
    <dialog ref={element} aria-labelledby={id} onCancel={cancel} onClose={closed} onClick={(event) => closable && event.target === element.current && onClose()}>
      <div class="dialog">
        <header>
          <h2 id={id}>{title}</h2>
          {closable && <button type="button" class="plain" aria-label="Close" onClick={onClose}>✕</button>}
        </header>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  /** The word on the button that does it. */
  action: string;
  onConfirm: () => void;
  onClose: () => void;
  children: ComponentChildren;
}

/** Asks before an order that cannot be taken back. */
export function Confirm({ title, action, onConfirm, onClose, children }: ConfirmProps) {
  const confirm = (event: Event): void => {
    event.preventDefault();
    onConfirm();
    onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={confirm}>
        {children}
        <footer class="actions">
          <button type="button" onClick={onClose}>Back</button>
          <button type="submit" class="danger" autofocus>{action}</button>
        </footer>
      </form>
    </Dialog>
  );
}
