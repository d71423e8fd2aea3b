/** Counts by state, and the filters of the queue; all of them are in the address. */

import { useSignal } from "@preact/signals";

import { formatCount } from "../../core/format";
import { ENDED_STATES, isWaiting, KIND_NAMES, OPEN_STATES, WAITING_STATES, type QueueFilter, type Show } from "../../core/queue";
import { setQuery } from "../../core/router";
import type { JobRow } from "../../net/types";
import { Span } from "../../ui/time";
import { Select } from "../../ui/select";
import { TextChoice } from "../../ui/text_choice";
import { isNarrow } from "../../ui/width";
import { Views } from "./views";

const GROUPS: ReadonlyArray<{ title: string; states: readonly string[] }> = [
  { title: "WAITING", states: WAITING_STATES },
  ...OPEN_STATES.slice(WAITING_STATES.length).map((state) => ({ title: state, states: [state] })),
];

interface CountsProps {
  counts: Readonly<Record<string, number>>;
  filter: QueueFilter;
  rows: ReadonlyMap<string, JobRow>;
}

/** The numbers of open jobs; a click on one lists its jobs alone. */
export function Counts({ counts, filter, rows }: CountsProps) {
  return (
    <div class="counts" role="group" aria-label="Open jobs by state">
      {GROUPS.map(({ title, states }) => {
        const count = states.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
        const isChosen = filter.show === "open" && states.length === filter.states.length && states.every((state) => filter.states.includes(state));
        if (count === 0 && !isChosen && title !== "WAITING" && title !== "RUNNING") return null;
        return (
          <button key={title} type="button" aria-pressed={isChosen} onClick={() => setQuery({ show: null, state: isChosen ? null : states })}>
            {title} <b class="num">{formatCount(count)}</b>
          </button>
        );
      })}
      <OldestWait rows={rows} />
    </div>
  );
}

function OldestWait({ rows }: { rows: ReadonlyMap<string, JobRow> }) {
  let oldest: JobRow | null = null;
  for (const row of rows.values()) {
    if (isWaiting(row) && (oldest === null || row.createTime < oldest.createTime)) oldest = row;
  }
  return oldest && <span class="hint oldest">oldest wait <Span start={oldest.createTime} /></span>;
}

const SHOWS: ReadonlyArray<{ show: Show; title: string }> = [
  { show: "open", title: "Open" },
  { show: "ended", title: "Ended" },
  { show: "all", title: "All" },
];

export function Filters({ filter, creators }: { filter: QueueFilter; creators: readonly string[] }) {
  const states = filter.show === "open" ? OPEN_STATES : filter.show === "ended" ? ENDED_STATES : [...OPEN_STATES, ...ENDED_STATES];
  return (
    <form class="filters" role="search" aria-label="Jobs" onSubmit={(event) => event.preventDefault()}>
      <div class="segments" role="group" aria-label="Which jobs">
        {SHOWS.map(({ show, title }) => (
          <button key={show} type="button" aria-pressed={filter.show === show} onClick={() => setQuery({ show: show === "open" ? null : show, state: null }, { push: true })}>{title}</button>
        ))}
      </div>
      <input id="search" type="search" placeholder="Part of a name or id" aria-label="Part of a name or id" value={filter.text}
        onInput={(event) => setQuery({ q: event.currentTarget.value })} onKeyDown={leaveField} />
      <Details filter={filter} states={states} creators={creators} />
      <Views />
    </form>
  );
}

/** Enter and Escape leave the field and keep its text, so that single keys act on the rows. */
function leaveField(event: KeyboardEvent): void {
  if (event.key !== "Enter" && event.key !== "Escape") return;
  event.preventDefault();
  if (event.currentTarget instanceof HTMLElement) event.currentTarget.blur();
}

/** The filters besides the text; a narrow screen shows them when asked to. */
function Details({ filter, states, creators }: { filter: QueueFilter; states: readonly string[]; creators: readonly string[] }) {
  const isOpen = useSignal(false);
  const number = [filter.states.length, filter.kinds.length, filter.creator, filter.label].filter(Boolean).length;
  const fields = <Fields filter={filter} states={states} creators={creators} />;
  if (!isNarrow.value) return fields;
  return (
    <>
      <button type="button" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)}>Filter{number > 0 ? ` (${number})` : ""}</button>
      {isOpen.value && fields}
    </>
  );
}

const SEVERAL = "several";

function Fields({ filter, states, creators }: { filter: QueueFilter; states: readonly string[]; creators: readonly string[] }) {
  const chosen = filter.states;
  return (
    <>
      <Select label="State" value={chosen.length > 1 ? SEVERAL : chosen[0] ?? ""} onChoose={(state) => setQuery({ state: state === SEVERAL ? chosen : state })}
        options={[["", "State: any"], ...(chosen.length > 1 ? [[SEVERAL, "State: several"] as const] : []), ...states.map((state) => [state, state] as const)]} />
      <Select label="Kind" value={filter.kinds[0] ?? ""} onChoose={(kind) => setQuery({ kind })}
        options={[["", "Kind: any"], ...Object.entries(KIND_NAMES).filter(([kind]) => kind !== "TRIAL")]} />
      <TextChoice class="short" label="Created by" placeholder="By" list="creators" value={filter.creator} onChoose={(creator) => setQuery({ creator })} />
      <datalist id="creators">{creators.map((creator) => <option key={creator} value={creator} />)}</datalist>
      <TextChoice class="short" label="Label, as key or key:value" placeholder="Label key:value" value={filter.label} onChoose={(label) => setQuery({ label })} />
    </>
  );
}
