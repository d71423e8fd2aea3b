/** The map: a card for each node, with a tile for each GPU. */

import { useSignal } from "@preact/signals";

import { countHeldAsFree, describeGpuCounts, describeNotice, describeReading, describeUnread, GPU_MEANINGS, GPU_SIGNS, gpuNote, isHeldIdle, isInstance, POLICY_MEANINGS, sparkPath } from "../../core/fleet";
import { formatBytes, formatPlural, shortAccelerator } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { displayNameOf } from "../../net/job_names";
import type { GpuSummary, NodeSummary } from "../../net/types";
import { JobLink } from "../../ui/job_link";
import { StateMark } from "../../ui/state";
import { Time } from "../../ui/time";
import { GpuDialog } from "./gpu";
import { OrderButtons, type Order } from "./orders";

/** More cards make a page slow; the table has all nodes. */
const CARDS_MAX = 200;

interface MapProps {
  nodes: readonly NodeSummary[];
  onOrder: (order: Order) => void;
}

export function NodeMap({ nodes, onOrder }: MapProps) {
  const rest = nodes.length - CARDS_MAX;
  return (
    <>
      {nodes.some((node) => node.devices?.length) && <Legend />}
      <Policies nodes={nodes} />
      <ul class="cards">
        {nodes.slice(0, CARDS_MAX).map((node) => <NodeCard key={node.name} node={node} onOrder={onOrder} />)}
      </ul>
      {rest > 0 && <p class="hint">And {formatPlural(rest, "more node")}: filter by name, or choose the table.</p>}
    </>
  );
}

function Legend() {
  return (
    <p class="hint legend">
      {Object.entries(GPU_MEANINGS).map(([state, meaning]) => (
        <span key={state}><span class={`gpu-sign g-${state.toLowerCase()}`} aria-hidden="true">{GPU_SIGNS[state as GpuSummary["state"]]}</span> {state}: {meaning}</span>
      ))}
    </p>
  );
}

/** A sentence for each policy that a node has. */
function Policies({ nodes }: { nodes: readonly NodeSummary[] }) {
  const policies = [...new Set(nodes.map((node) => node.policy))].sort();
  return <p class="hint legend">{policies.map((policy) => <span key={policy}><b>{policy}</b>: {POLICY_MEANINGS[policy]}</span>)}</p>;
}

function NodeCard({ node, onOrder }: { node: NodeSummary; onOrder: (order: Order) => void }) {
  return (
    <li class={`node-card ${node.state === "READY" ? "" : "out"}`}>
      <header>
        <h2>{node.name}</h2>
        <StateMark state={node.state} />
        {node.notice && <span class="hint">{describeNotice(node.notice)}</span>}
      </header>
      <p class="hint">
        {[node.region, node.policy, formatPlural(node.vcpus, "vCPU"), `${Math.round(node.memoryGigabytes)} GB`, formatPlural(node.replicas, "replica")].filter(Boolean).join(" · ")}
        {" · seen\u00a0"}<Time value={node.seen} />
      </p>
      <Gpus node={node} />
      <Jobs names={node.jobs ?? []} />
      <OrderButtons node={node} onOrder={onOrder} />
    </li>
  );
}

function Gpus({ node }: { node: NodeSummary }) {
  const opened = useSignal("");
  const devices = node.devices ?? [];
  const gpu = devices.find(({ uuid }) => uuid === opened.value);
  const held = countHeldAsFree(node);
  if (devices.length === 0) {
    const unread = describeUnread(node);
    return <p>{describeGpuCounts(node) || "No GPU"}{unread && <span class="hint"> · {unread}</span>}</p>;
  }
  return (
    <>
      <ul class="gpus" aria-label={`GPUs of ${node.name}`}>
        {devices.map((gpu) => (
          <li key={gpu.uuid}><GpuTile gpu={gpu} onOpen={() => (opened.value = gpu.uuid)} /></li>
        ))}
      </ul>
      {held > 0 && <p class="hint">Jobs hold {held} of the GPUs that are FREE here; only the server of that machine reports which.</p>}
      {gpu && <GpuDialog node={node.name} gpu={gpu} onClose={() => (opened.value = "")} />}
    </>
  );
}

function GpuTile({ gpu, onOpen }: { gpu: GpuSummary; onOpen: () => void }) {
  const memory = typeof gpu.memoryBytes === "number" ? ` · ${formatBytes(gpu.memoryBytes)}` : "";
  const figures = describeReading(gpu.reading);
  const recent = sparkPath(gpu.recentUse ?? [], 100, 14);
  return (
    <button type="button" class={`gpu g-${gpu.state.toLowerCase()}${isHeldIdle(gpu) ? " idle" : ""}`} onClick={onOpen} title={`${gpu.name}${memory}${recent ? "\nThe line is its use in the last ten minutes." : ""}\n${gpu.problem ?? gpu.who ?? (gpu.user ? `held by ${showHidden(gpu.user)}` : "")}`.trim()}>
      <span class="gpu-head"><b>{gpu.index}</b> <span class="gpu-sign" aria-hidden="true">{GPU_SIGNS[gpu.state]}</span> {gpu.state}</span>
      <span class="gpu-note">{gpuNote(gpu, displayNameOf) || shortAccelerator(gpu.type)}{isInstance(gpu) ? " · MIG" : ""}</span>
      {figures && <span class="gpu-note num">{figures}</span>}
      {recent && <svg class="spark" viewBox="0 -1 100 16" preserveAspectRatio="none" aria-hidden="true"><path d={recent} /></svg>}
    </button>
  );
}

const JOBS_MAX = 6;

function Jobs({ names }: { names: readonly string[] }) {
  if (names.length === 0) return null;
  const rest = names.length - JOBS_MAX;
  return (
    <p>
      {names.slice(0, JOBS_MAX).map((name, index) => <span key={name}>{index > 0 && ", "}<JobLink name={name} /></span>)}
      {rest > 0 && ` and ${rest} more`}
    </p>
  );
}
