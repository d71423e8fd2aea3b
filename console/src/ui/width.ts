/** Whether the page is as narrow as a phone. */

import { signal } from "@preact/signals";

const query = matchMedia("(max-width: 46rem)");

export const isNarrow = signal(query.matches);

query.addEventListener("change", () => (isNarrow.value = query.matches));
