/** What the server would do with the text: the machines, their price, and whether it starts now. */

import { formatCount, formatNumber, shortAccelerator } from "../../core/format";
import type { ClusterMachines, ClusterPrice, StartForecast, TextCheck, TextEdit } from "../../net/types";
import { Notice, sentence } from "../../ui/notice";
import { UseButton } from "./problems";

const KINDS: Readonly<Record<string, string>> = {
  AI_PLATFORM_JOB: "AI Platform training job (ml v1)",
  CUSTOM_JOB: "Vertex custom job (aiplatform v1)",
  TUNING_JOB: "Vertex hyperparameter tuning job (aiplatform v1)",
  TRAINING_PIPELINE: "Vertex training pipeline (aiplatform v1)",
};

interface ForecastProps {
  answer: TextCheck;
  onUse: (edit: TextEdit) => void;
  onLocation: (location: string) => void;
}

export function Forecast({ answer, onUse, onLocation }: ForecastProps) {
  return (
    <section aria-label="What the server would do">
      {answer.kind && <p><span class="hint">Kind:</span> {KINDS[answer.kind] ?? answer.kind}</p>}
      {answer.start && <Start start={answer.start} onUse={onUse} onLocation={onLocation} />}
      {answer.cluster.length > 0 && <Cluster machines={answer.cluster} />}
      {answer.price && <Price price={answer.price} />}
      {answer.notes.length > 0 && <><h2>Notes</h2><ul>{answer.notes.map((note) => <li key={note}>{sentence(note)}</li>)}</ul></>}
    </section>
  );
}

const NODES_MAX = 3;

/** Return whether the job has its GPUs when it starts; `nodes` only emulate them. */
function describeStart(nodes: readonly string[]): string {
  if (nodes.length === 0) return "It would start now.";
  const names = [...nodes.slice(0, NODES_MAX), ...(nodes.length > NODES_MAX ? [`${nodes.length - NODES_MAX} more`] : [])];
  return `It would start now on ${names.join(", ")}, whose GPUs are emulated: the programs there run on CPUs.`;
}

function Start({ start, onUse, onLocation }: { start: StartForecast; onUse: (edit: TextEdit) => void; onLocation: (location: string) => void }) {
  if (start.now) return <Notice tone="good">{describeStart(start.emulatedOn ?? [])}</Notice>;
  const change = start.change;
  return (
    <Notice tone={start.refused ? "error" : "warning"}>
      <b>{start.refused ? "It would be refused" : "It would wait"}{start.reason ? `, ${start.reason}` : ""}.</b>{" "}
      {start.message && sentence(start.message)}
      {change && (
        <p>
          It {change.sentence}.{" "}
          {change.edit && <UseButton edit={change.edit} onUse={onUse} />}
          {change.location && <button type="button" onClick={() => onLocation(change.location ?? "")}>Use {change.location}</button>}
        </p>
      )}
    </Notice>
  );
}

function Cluster({ machines }: { machines: readonly ClusterMachines[] }) {
  return (
    <>
      <h2>Machines</h2>
      <table class="plain-table">
        <thead><tr><th>role</th><th class="num">count</th><th>machine</th><th class="num">vCPUs</th><th class="num">GB</th><th>GPUs each</th></tr></thead>
        <tbody>
          {machines.map((group) => (
            <tr key={group.role}>
              <td>{group.role.toLowerCase()}</td>
              <td class="num">{formatCount(group.count)}</td>
              <td>{group.machineType ?? "–"}</td>
              <td class="num">{group.vcpus ?? "–"}</td>
              <td class="num">{group.memoryGigabytes ?? "–"}</td>
              <td>{group.acceleratorCount > 0 ? `${group.acceleratorCount} × ${shortAccelerator(group.acceleratorType ?? "")}` : "none"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function Price({ price }: { price: ClusterPrice }) {
  const isPriced = typeof price.hourly === "number";
  return (
    <p>
      <b>Price:</b> {isPriced ? `${formatNumber(price.hourly ?? 0, 4)} ${price.currency ?? ""} an hour` : "not known"}
      {price.listDate && <span class="hint"> (list of {price.listDate})</span>}
      {price.missing.map((text) => <span key={text} class="hint"> {sentence(text)}</span>)}
    </p>
  );
}
