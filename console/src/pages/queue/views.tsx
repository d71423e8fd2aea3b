/** Named filters: some that everybody has, and those that this browser keeps. */

import { signal } from "@preact/signals";

import { navigate, route } from "../../core/router";
import { session } from "../../net/session";
import { readChoice, writeChoice } from "../../net/settings";
import { Menu } from "../../ui/menu";

interface View {
  name: string;
  /** The query of the address, without "?". */
  query: string;
}

const VIEWS_MAX = 50;

function readViews(): View[] {
  try {
    const value: unknown = JSON.parse(readChoice("views") ?? "[]");
    return Array.isArray(value) ? value.filter(isView).slice(0, VIEWS_MAX) : [];
  } catch {
    return [];
  }
}

function isView(value: unknown): value is View {
  const view = value as Partial<View> | null;
  return typeof view?.name === "string" && typeof view.query === "string";
}

const saved = signal<readonly View[]>(readViews());

function save(views: readonly View[]): void {
  saved.value = views;
  writeChoice("views", JSON.stringify(views));
}

function commonViews(): View[] {
  const own = session.value && !session.value.anonymous ? [{ name: "Created by me", query: `creator=${encodeURIComponent(session.value.name)}` }] : [];
  return [
    { name: "Waiting, oldest first", query: "state=QUEUED&state=ENQUEUED&sort=created" },
    { name: "Failed", query: "show=ended&state=FAILED" },
    ...own,
  ];
}

const open = (query: string): void => navigate(`/console/${query ? `?${query}` : ""}`);

export function Views() {
  const query = route.value.query.toString();
  return (
    <Menu label="Views" title="Saved filters">
      {commonViews().map((view) => <button key={view.name} type="button" data-close onClick={() => open(view.query)}>{view.name}</button>)}
      {saved.value.map((view) => (
        <div class="view" key={view.name}>
          <button type="button" data-close onClick={() => open(view.query)}>{view.name}</button>
          <button type="button" class="plain" aria-label={`Delete the view ${view.name}`} onClick={() => save(saved.value.filter((other) => other !== view))}>✕</button>
        </div>
      ))}
      <SaveView query={query} />
    </Menu>
  );
}

function SaveView({ query }: { query: string }) {
  const onSave = (event: KeyboardEvent | MouseEvent, input: HTMLInputElement | null): void => {
    const name = input?.value.trim() ?? "";
    event.preventDefault();
    if (!name || !input) return;
    save([...saved.value.filter((view) => view.name !== name), { name, query }].slice(-VIEWS_MAX));
    input.value = "";
  };
  return (
    <div class="view">
      <input placeholder="Name of this view" aria-label="Name of this view" maxLength={60} onKeyDown={(event) => event.key === "Enter" && onSave(event, event.currentTarget)} />
      <button type="button" onClick={(event) => onSave(event, event.currentTarget.previousElementSibling as HTMLInputElement)}>Save</button>
    </div>
  );
}
