/** A button that opens a list of links and orders; Escape and a click elsewhere close it. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface MenuProps {
  label: ComponentChildren;
  title: string;
  children: ComponentChildren;
}

export function Menu({ label, title, children }: MenuProps) {
  const [isOpen, setOpen] = useState(false);
  const element = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!isOpen) return;
    if (body.current && body.current.getBoundingClientRect().left < 0) body.current.classList.add("to-right");
    const onPress = (event: Event): void => {
      if (!element.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", onPress);
    return () => document.removeEventListener("pointerdown", onPress);
  }, [isOpen]);
  /** The item of an order is gone when its dialog gives the focus back, so the menu's button has the focus before. */
  const keepFocus = (event: MouseEvent): void => {
    if ((event.target as Element).closest("button[data-close]")) button.current?.focus();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || !isOpen) return;
    event.stopPropagation();
    setOpen(false);
    button.current?.focus();
  };
  return (
    <div class="menu" ref={element} onKeyDown={onKey}>
      <button type="button" ref={button} title={title} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {label}<span aria-hidden="true"> ▾</span>
      </button>
      {isOpen && <div class="menu-body" ref={body} onClickCapture={keepFocus} onClick={(event) => (event.target as Element).closest("a, button[data-close]") && setOpen(false)}>{children}</div>}
    </div>
  );
}
