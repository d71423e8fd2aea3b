/** Loads a page's script when it is first shown. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

import { focusContent } from "./focus";
import { Notice } from "./notice";

interface PageModule<P> {
  default: ComponentType<P>;
}

/** Return a component that loads the module's default component and shows it. */
export function lazy<P extends object>(load: () => Promise<PageModule<P>>): ComponentType<P> {
  let ready: ComponentType<P> | null = null;
  return function LazyPage(props: P) {
    const [, redraw] = useState(0);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (ready) return;
      load().then(
        (module) => {
          ready = module.default;
          redraw((count) => count + 1);
        },
        () => setFailed(true),
      );
    }, []);
    const isReady = ready !== null;
    useEffect(() => {
      if (isReady) focusContent();
    }, [isReady]);
    if (ready) {
      const Page = ready;
      return <Page {...props} />;
    }
    if (failed) return <Notice tone="error">This part of the page could not be loaded. <button type="button" class="link" onClick={() => location.reload()}>Load it again</button></Notice>;
    return <p class="loading" role="status">Loading…</p>;
  };
}
