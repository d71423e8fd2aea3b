/** Makes its content when it is near the window: a page of many charts draws only those that a user sees. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Content outside of the window waits until that inside of it is drawn. */
const LATER_MS = 150;

/** `height` in pixels is that of the empty place; the content stays once it was made. */
export function WhenVisible({ height, children }: { height: number; children: () => ComponentChildren }) {
  const isMade = useSignal(false);
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let timer = 0;
    const observer = new IntersectionObserver((entries) => {
      const entry = entries.find(({ isIntersecting }) => isIntersecting);
      if (!entry) return;
      const isInWindow = entry.boundingClientRect.top < innerHeight && entry.boundingClientRect.bottom > 0;
      timer = window.setTimeout(() => (isMade.value = true), isInWindow ? 0 : LATER_MS);
      observer.disconnect();
    }, { rootMargin: "300px" });
    if (element.current) observer.observe(element.current);
    return () => (clearTimeout(timer), observer.disconnect());
  }, []);
  return <div ref={element} style={isMade.value ? {} : { minHeight: `${height}px` }}>{isMade.value && children()}</div>;
}
