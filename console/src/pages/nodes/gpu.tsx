/** What is known of one GPU. */

import { Fragment } from "preact";

import { GPU_MEANINGS, GPU_SIGNS } from "../../core/fleet";
import { formatBytes, formatDuration } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { formatEnergy } from "../../core/observed";
import type { GpuReading, GpuSummary } from "../../net/types";
import { CopyButton } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { Time } from "../../ui/time";
import { JobLink } from "../../ui/job_link";

interface GpuProps {
  node: string;
  gpu: GpuSummary;
  onClose: () => void;
}

export function GpuDialog({ node, gpu, onClose }: GpuProps) {
  return (
    <Dialog title={`GPU ${gpu.index} of ${node}`} onClose={onClose}>
      <dl class="facts">
        <dt>State</dt><dd><span aria-hidden="true">{GPU_SIGNS[gpu.state]}</span> {gpu.state}: {GPU_MEANINGS[gpu.state]}</dd>
        {gpu.problem && <><dt>Problem</dt><dd>{gpu.problem}</dd></>}
        {gpu.who && <><dt>Used by</dt><dd>{gpu.who}</dd></>}
        {gpu.job && <><dt>Job</dt><dd><JobLink name={gpu.job} /></dd></>}
        {gpu.user && <><dt>Held by</dt><dd>{showHidden(gpu.user)}</dd></>}
        <dt>Model</dt><dd>{gpu.name} ({gpu.type})</dd>
        {typeof gpu.memoryBytes === "number" && <><dt>Memory</dt><dd>{formatBytes(gpu.memoryBytes)}</dd></>}
        <dt>UUID</dt><dd><code>{gpu.uuid}</code> <CopyButton text={gpu.uuid} what="UUID" /></dd>
        {gpu.pciBusId && <><dt>PCI bus</dt><dd><code>{gpu.pciBusId}</code></dd></>}
        {typeof gpu.idleSeconds === "number" && gpu.idleSeconds > 0 && <><dt>Not used by its job for</dt><dd class="num">{formatDuration(gpu.idleSeconds)}</dd></>}
        {gpu.reading && <Reading reading={gpu.reading} />}
      </dl>
      {!gpu.reading && <p class="hint">Figures come only from the machine of the server that answers, and only if its driver measures them.</p>}
    </Dialog>
  );
}

const percent = (share: number): string => `${Math.round(share * 100)} %`;

function Reading({ reading }: { reading: GpuReading }) {
  const rows: [string, string][] = [];
  if (typeof reading.use === "number") rows.push(["Busy", percent(reading.use)]);
  if (typeof reading.useMinute === "number") rows.push(["Busy in the last minute", percent(reading.useMinute)]);
  if (typeof reading.usedBytes === "number") rows.push(["Memory in use", formatBytes(reading.usedBytes)]);
  if (typeof reading.powerWatts === "number") rows.push(["Power", `${Math.round(reading.powerWatts)} W`]);
  if (typeof reading.energyJoules === "number") rows.push([reading.isEnergySummed ? "Energy since the server started" : "Energy since the driver was loaded", formatEnergy(reading.energyJoules)]);
  if (typeof reading.temperatureCelsius === "number") rows.push(["Temperature", `${reading.temperatureCelsius} °C`]);
  if (typeof reading.eccErrors === "number") rows.push(["Uncorrectable memory errors", String(reading.eccErrors)]);
  if (reading.throttled?.length) rows.push(["Clocks lowered by", reading.throttled.join(", ")]);
  return (
    <>
      {rows.map(([name, text]) => <Fragment key={name}><dt>{name}</dt><dd class="num">{text}</dd></Fragment>)}
      {reading.at && <><dt>Read</dt><dd><Time value={reading.at} /></dd></>}
    </>
  );
}
