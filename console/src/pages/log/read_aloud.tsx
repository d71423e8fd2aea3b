/** Lets a screen reader announce the newest line, at most every 5 s; off by default. */

import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { showHidden } from "../../core/hidden";
import { readChoice, writeChoice } from "../../net/settings";
import type { LogFeed } from "./feed";

const PAUSE_MS = 5000;
const LENGTH_MAX = 200;
const isOn = signal(readChoice("log-aloud") === "on");

export function ReadAloud({ feed }: { feed: LogFeed }) {
  const text = useSignal("");
  useEffect(() => {
    if (!isOn.value) return;
    const timer = setInterval(() => {
      const rows = feed.rows.peek();
      const last = feed.hasEnd.peek() ? rows[rows.length - 1] : undefined;
      if (last) text.value = `${last.task}: ${showHidden(last.text.slice(0, LENGTH_MAX))}`;
    }, PAUSE_MS);
    return () => clearInterval(timer);
  }, [feed, isOn.value]);
  const toggle = (): void => {
    isOn.value = !isOn.value;
    writeChoice("log-aloud", isOn.value ? "on" : null);
  };
  return (
    <>
      <label class="check"><input type="checkbox" checked={isOn.value} onChange={toggle} /> announce new lines to screen readers</label>
      <span class="hidden-text" aria-live="polite">{isOn.value ? text.value : ""}</span>
    </>
  );
}
