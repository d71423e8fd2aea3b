/** Nodes: which machines serve, what their GPUs do, and taking a machine out of service. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { describeFleet, filterNodes } from "../../core/fleet";
import type { Route } from "../../core/route";
import { setQuery } from "../../core/router";
import { callApi } from "../../net/api";
import { displayNameOf } from "../../net/job_names";
import { isAdministrator } from "../../net/session";
import { subscribe } from "../../net/stream";
import type { Fleet, NodeSummary } from "../../net/types";
import { ErrorNotice } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import { Engines } from "./engines";
import { NodeMap } from "./map";
import { OrderDialog, type Order } from "./orders";
import { NodeTable } from "./table";

/** Read the fleet, and again when the stream says that a node has changed. */
function useFleet() {
  const fleet = useResource("fleet", (signal) => callApi<Fleet>("GET", "/nodes", { signal }));
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
  const shown = filterNodes(nodes, route.query.get("q") ?? "", displayNameOf);
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
      {nodes.length > 0 && <Tools view={view} query={route.query.get("q") ?? ""} shown={shown} all={nodes} />}
      {nodes.length > 0 && (view === "map" ? <NodeMap nodes={shown} onOrder={give} /> : <NodeTable nodes={shown} onOrder={give} />)}
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
  query: string;
  shown: readonly NodeSummary[];
  all: readonly NodeSummary[];
}

function Tools({ view, query, shown, all }: ToolsProps) {
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
      {!isAdministrator() && <span class="hint">An administrator of all projects takes nodes out of service.</span>}
    </div>
  );
}
