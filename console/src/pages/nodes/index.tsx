/** Nodes: which machines serve, what their GPUs do, and taking a machine out of service. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { countHeldIdle, describeFleet, filterNodes } from "../../core/fleet";
import type { Route } from "../../core/route";
import { setQuery } from "../../core/router";
import { callApi } from "../../net/api";
import { displayNameOf } from "../../net/job_names";
import { isAdministrator } from "../../net/session";
import { subscribe } from "../../net/stream";
import type { Fleet, NodeSummary } from "../../net/types";
import { ErrorNotice } from "../../ui/notice";
import { useRefreshed } from "../../ui/resource";
import { Engines } from "./engines";
import { NodeMap } from "./map";
import { OrderDialog, type Order } from "./orders";
import { NodeTable } from "./table";

/** The figures of GPUs are read again so often; the stream says other changes. */
const READINGS_MS = 10000;

/** Read the fleet, and again when the stream says that a node has changed. */
function useFleet() {
  const hasReadings = useSignal(false);
  const fleet = useRefreshed("fleet", hasReadings.value ? READINGS_MS : 0, (signal) => callApi<Fleet>("GET", "/nodes", { signal }));
  const answer = fleet.value.value;
  useEffect(() => {
    hasReadings.value = answer?.nodes.some((node) => node.devices?.some(({ reading }) => reading)) ?? false;
  }, [answer]);
  useEffect(() => {
    let timer = 0;
    const stop = subscribe("nodes", () => {
      clearTimeout(timer);
      timer = window.setTimeout(fleet.reload, 200);
    });
    return () => (clearTimeout(timer), stop());
  }, []);
  return fleet;
}

export default function NodesPage({ route }: { route: Route }) {
  const fleet = useFleet();
  const order = useSignal<Order | null>(null);
  const view = route.query.get("view") === "table" ? "table" : "map";
  const answer = fleet.value.value;
  const nodes = answer?.nodes ?? [];
  const onlyIdle = route.query.get("idle") === "1";
  const named = filterNodes(nodes, route.query.get("q") ?? "", displayNameOf);
  const shown = onlyIdle ? named.filter((node) => countHeldIdle([node]) > 0) : named;
  const give = (next: Order): void => {
    order.value = next;
  };
  return (
    <main id="main" tabIndex={-1} class="nodes">
      <h1>Nodes</h1>
      {fleet.error.value && <ErrorNotice error={fleet.error.value} retry={fleet.reload} />}
      {fleet.loading.value && <p class="loading" role="status">Loading…</p>}
      {answer && <Engines engines={answer.engines ?? []} />}
      {answer && nodes.length === 0 && <NoNodes />}
      {nodes.length > 0 && <Tools view={view} onlyIdle={onlyIdle} query={route.query.get("q") ?? ""} shown={shown} all={nodes} />}
      {onlyIdle && shown.length === 0 && nodes.length > 0 && <p>No job holds a GPU on which it has run nothing for ten minutes.</p>}
      {shown.length > 0 && (view === "map" ? <NodeMap nodes={shown} onOrder={give} /> : <NodeTable nodes={shown} onOrder={give} />)}
      {order.value && <OrderDialog order={order.value} onClose={() => (order.value = null)} onDone={fleet.reload} />}
    </main>
  );
}

function NoNodes() {
  return (
    <p>No node reports. A server has one when its engine works; <code>trainshed doctor</code> says what is missing on a machine.</p>
  );
}

interface ToolsProps {
  view: string;
  onlyIdle: boolean;
  query: string;
  shown: readonly NodeSummary[];
  all: readonly NodeSummary[];
}

function Tools({ view, onlyIdle, query, shown, all }: ToolsProps) {
  return (
    <div class="tools">
      <span aria-live="polite">{describeFleet(shown)}{shown.length < all.length ? ` of ${all.length}` : ""}</span>
      <div role="group" aria-label="View">
        {["map", "table"].map((name) => (
          <button key={name} type="button" aria-pressed={view === name} onClick={() => setQuery({ view: name === "map" ? null : name })}>{name}</button>
        ))}
      </div>
      <input type="search" placeholder="name, state, job, GPU" aria-label="Filter the nodes" value={query}
        onInput={(event) => setQuery({ q: event.currentTarget.value })} />
      <label class="check" title="Nodes with a GPU on which its job has run nothing for ten minutes">
        <input type="checkbox" checked={onlyIdle} onChange={(event) => setQuery({ idle: event.currentTarget.checked ? "1" : null })} /> held and idle for 10 min ({countHeldIdle(all)})
      </label>
      <a href="/console/usage?by=gpu&period=yesterday">idle GPUs of yesterday</a>
      {!isAdministrator() && <span class="hint">An administrator of all projects takes nodes out of service.</span>}
    </div>
  );
}
