/** The search box of a log: its text is searched for in all lines, on the server. */

import { useEffect, useRef } from "preact/hooks";

import { formatCount } from "../../core/format";
import { setQuery } from "../../core/router";
import { ApiError } from "../../net/api";
import type { LogChoices } from "./choices";
import type { LogController } from "./controller";
import { Switch } from "./toolbar";

/** A search begins this many milliseconds after the last key. */
const TYPING_MS = 250;
export const FIND_ID = "log-find";

export function FindBox({ controller, choices }: { controller: LogController; choices: LogChoices }) {
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef(0);
  const text = choices.query?.text ?? "";
  useEffect(() => {
    if (field.current && field.current !== document.activeElement) field.current.value = text;
  }, [text]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const apply = (): void => setQuery({ q: field.current?.value || null });
  const onInput = (): void => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(apply, TYPING_MS);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      field.current?.blur();
    } else if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(timer.current);
      if ((field.current?.value ?? "") === text) void controller.stepHit(event.shiftKey ? -1 : 1);
      else apply();
    }
  };
  return (
    <span class="log-group log-find" role="search">
      <input ref={field} id={FIND_ID} type="search" aria-label="Find in the log" placeholder="find in all lines" defaultValue={text}
        maxLength={1000} spellcheck={false} onInput={onInput} onKeyDown={onKey} />
      <HitCount controller={controller} />
      <button type="button" title="First hit of the whole log" aria-label="First hit" disabled={!text} onClick={() => controller.findFirst()}>⤒ hit</button>
      <button type="button" title="Previous hit (N)" aria-label="Previous hit" disabled={!text} onClick={() => void controller.stepHit(-1)}>↑</button>
      <button type="button" title="Next hit (n)" aria-label="Next hit" disabled={!text} onClick={() => void controller.stepHit(1)}>↓</button>
      <Switch name="regex" isOn={choices.query?.isExpression ?? false} title="The text is a regular expression (RE2)">.*</Switch>
      <Switch name="case" isOn={choices.query?.matchesCase ?? false} title="Capital letters differ from small ones">Aa</Switch>
      <Switch name="hits" isOn={choices.onlyHits} title="Show only the lines with a hit">only hits</Switch>
    </span>
  );
}

function HitCount({ controller }: { controller: LogController }) {
  const { search, current } = controller;
  if (search.query.value === null) return null;
  const hits = search.hits.value;
  const searched = search.searched.value;
  const at = hits.findIndex((hit) => hit.stamp === current.value);
  const more = searched === null && !search.complete.value && hits.length > 0 ? "+" : "";
  const error = search.error.value;
  if (error instanceof ApiError) return <span class="log-problem" role="alert">{error.message}</span>;
  const count = `${at >= 0 ? `${formatCount(at + 1)}/` : ""}${formatCount(hits.length)}${more}`;
  return (
    <span class="log-count" role="status" aria-live="polite">
      {hits.length === 0 && searched === null ? (search.complete.value ? "no hit" : "no hit so far") : count}
      {searched !== null && (
        <>
          {" "}
          <progress max={1} value={searched} aria-label="Searched share of the log" />
          <button type="button" class="link" onClick={() => search.cancel()}>stop</button>
        </>
      )}
    </span>
  );
}
