/** All nodes as a table. */

import { useSignal } from "@preact/signals";

import { countGpus, describeGpuCounts, describeUse, GPU_SIGNS, GPU_STATES, jobTitle } from "../../core/fleet";
import { displayNameOf } from "../../net/job_names";
import type { NodeSummary } from "../../net/types";
import { StateMark } from "../../ui/state";
import { Time } from "../../ui/time";
import { VirtualTable, type Column, type Sort } from "../../ui/virtual_table";
import { OrderButtons, type Order } from "./orders";

function describeGpus(node: NodeSummary): string {
  if (!node.devices?.length) return describeGpuCounts(node) || "–";
  const counts = countGpus([node]);
  const parts = GPU_STATES.filter((state) => counts[state] > 0).map((state) => `${GPU_SIGNS[state]} ${counts[state]} ${state}`);
  return parts.join("  ");
}

function namesOfJobs(node: NodeSummary): string[] {
  return (node.jobs ?? []).map((name) => displayNameOf(name) ?? jobTitle(name));
}

function columnsOf(onOrder: (order: Order) => void): Column<NodeSummary>[] {
  return [
    { id: "name", title: "Node", width: "minmax(7rem, 2fr)", isSortable: true, cell: (node) => node.name },
    { id: "state", title: "State", width: "8rem", isSortable: true, cell: (node) => <StateMark state={node.state} /> },
    { id: "orders", title: "Orders", width: "11rem", cell: (node, isActive) => <OrderButtons node={node} onOrder={onOrder} tabIndex={isActive ? 0 : -1} isNarrow /> },
    { id: "gpus", title: "GPUs", width: "minmax(8rem, 2fr)", cell: (node) => <span title={describeGpus(node)}>{describeGpus(node)}</span> },
    { id: "use", title: "Use, power", width: "7.2rem", isNumber: true, cell: (node) => describeUse(node) || "–" },
    { id: "jobs", title: "Jobs", width: "minmax(6rem, 2fr)", cell: (node) => <span title={namesOfJobs(node).join("\n")}>{namesOfJobs(node).join(", ")}</span> },
    { id: "replicas", title: "Replicas", width: "5rem", isNumber: true, isSortable: true, cell: (node) => node.replicas },
    { id: "vcpus", title: "vCPUs", width: "4rem", isNumber: true, isSortable: true, cell: (node) => node.vcpus },
    { id: "memoryGigabytes", title: "GB", width: "4rem", isNumber: true, isSortable: true, cell: (node) => Math.round(node.memoryGigabytes) },
    { id: "region", title: "Region", width: "minmax(4rem, 1fr)", isSortable: true, cell: (node) => node.region },
    { id: "seen", title: "Seen", width: "5rem", isSortable: true, cell: (node) => <Time value={node.seen} /> },
  ];
}

type SortKey = "name" | "state" | "region" | "vcpus" | "memoryGigabytes" | "replicas" | "seen";

function sortNodes(nodes: readonly NodeSummary[], { column, descending }: Sort): NodeSummary[] {
  const sign = descending ? -1 : 1;
  const key = column as SortKey;
  return [...nodes].sort((left, right) => {
    const [one, other] = [left[key], right[key]];
    if (typeof one === "number" && typeof other === "number") return sign * (one - other);
    return sign * String(one).localeCompare(String(other), undefined, { numeric: true });
  });
}

export function NodeTable({ nodes, onOrder }: { nodes: readonly NodeSummary[]; onOrder: (order: Order) => void }) {
  const sort = useSignal<Sort>({ column: "name", descending: false });
  const active = useSignal<string | null>(null);
  const onSort = (column: string): void => {
    sort.value = { column, descending: sort.value.column === column && !sort.value.descending };
  };
  return (
    <div class="fit" style={{ "--fit": `${nodes.length * 40 + 52}px` }}>
    <VirtualTable label="Nodes" columns={columnsOf(onOrder)} rows={sortNodes(nodes, sort.value)} rowKey={(node) => node.name}
      rowHeight={40} sort={sort.value} onSort={onSort} active={active.value} onActivate={(key) => (active.value = key)}
      rowClass={(node) => (node.state === "READY" ? "" : "out")} />
    </div>
  );
}
