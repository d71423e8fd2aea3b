/** Sets the focus after a change of the page. */

/** Let the Tab key begin at the page's content, unless the page has set the focus itself. */
export function focusContent(): void {
  const isLost = document.activeElement === null || document.activeElement === document.body;
  if (isLost) document.getElementById("main")?.focus({ preventScroll: true });
}
