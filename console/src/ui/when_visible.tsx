/** Makes its content when it is near the window: a page of many charts draws only those that a user sees. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** `height` in pixels is that of the empty place; the content stays once it was made. */
export function WhenVisible({ height, children }: { height: number; children: () => ComponentChildren }) {
  const isMade = useSignal(false);
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      isMade.value = true;
      observer.disconnect();
    }, { rootMargin: "300px" });
    if (element.current) observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return <div ref={element} style={isMade.value ? {} : { minHeight: `${height}px` }}>{isMade.value && children()}</div>;
}
