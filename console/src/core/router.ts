/** The browser's address as a signal: links inside the console change it without loading a page. */

import { signal } from "@preact/signals";

import { parseRoute, STUDIES_PATH, type Route } from "./route";

/** Read the address; the path above those of studies is another address of their list. */
function read(): Route {
  if (/^\/console\/studies\/?$/.test(location.pathname)) history.replaceState(null, "", STUDIES_PATH);
  return parseRoute(location.pathname, location.search);
}

export const route = signal<Route>(read());

/** Show another page of the console; `replace` leaves no entry in the browser's history. */
export function navigate(path: string, options: { replace?: boolean } = {}): void {
  const before = route.value;
  if (options.replace) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  route.value = read();
  const isOther = route.value.page !== before.page || JSON.stringify(route.value.parameters) !== JSON.stringify(before.parameters);
  if (isOther) scrollTo(0, 0);
}

/** Change parameters of the address's query; null or "" removes one. */
export function setQuery(
  changes: Readonly<Record<string, string | readonly string[] | null>>,
  options: { push?: boolean } = {},
): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    const values = value === null ? [] : typeof value === "string" ? [value] : value;
    for (const item of values) if (item !== "") query.append(name, item);
  }
  const text = query.toString();
  navigate(location.pathname + (text ? `?${text}` : ""), { replace: !options.push });
}

function linkOf(event: MouseEvent): HTMLAnchorElement | null {
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!isPlain || event.defaultPrevented || !(event.target instanceof Element)) return null;
  const link = event.target.closest("a");
  const isOwn = link?.origin === location.origin && /^\/console(\/|$)/.test(link.pathname);
  return link && isOwn && !link.target && !link.hasAttribute("download") ? link : null;
}

/** Follow links of the console and the browser's buttons without loading a page. */
export function startRouter(): void {
  document.addEventListener("click", (event) => {
    const link = linkOf(event);
    if (!link) return;
    event.preventDefault();
    navigate(link.pathname + link.search + link.hash);
  });
  addEventListener("popstate", () => (route.value = read()));
}
