/** Orders for administrators: drain, maintain, resume; each shows first which jobs it concerns. */

import { useSignal } from "@preact/signals";

import { describeNotice, parseNotice } from "../../core/fleet";
import { formatPlural } from "../../core/format";
import { callApi } from "../../net/api";
import { isAdministrator } from "../../net/session";
import type { Fleet, NodeOrdered, NodeSummary } from "../../net/types";
import { useAttempt } from "../../ui/attempt";
import { CopyButton } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { JobLink } from "../../ui/job_link";
import { announce, ErrorNotice, Notice } from "../../ui/notice";
import { useResource } from "../../ui/resource";

type OrderWord = "drain" | "maintain" | "resume";

export interface Order {
  word: OrderWord;
  node: NodeSummary;
}

const TITLES: Readonly<Record<OrderWord, string>> = {
  drain: "Drain", maintain: "Put into maintenance", resume: "Resume",
};

const HINTS: Readonly<Record<OrderWord, string>> = {
  drain: "No new replicas; what runs on the node goes on to its end",
  maintain: "No new replicas; jobs on the node get notice, save their work and start again elsewhere",
  resume: "The node takes new replicas again",
};

/** The seconds of notice that the server gives when the caller names none. */
const NOTICE = "120";

/** Return the orders that change a node in its present state. */
function wordsFor(node: NodeSummary): OrderWord[] {
  if (node.state === "READY") return ["drain", "maintain"];
  return node.state === "DRAINED" ? ["maintain", "resume"] : ["resume"];
}

interface ButtonsProps {
  node: NodeSummary;
  onOrder: (order: Order) => void;
  /** In a row of the table: a cluster's command without its sentence. */
  isNarrow?: boolean;
  tabIndex?: number;
}

export function OrderButtons({ node, onOrder, isNarrow, tabIndex = 0 }: ButtonsProps) {
  if (node.orderCommand) return <ClusterCommand command={node.orderCommand} isNarrow={isNarrow ?? false} />;
  if (!isAdministrator()) return null;
  return (
    <span class="orders">
      {wordsFor(node).map((word) => (
        <button key={word} type="button" tabIndex={tabIndex} aria-label={`${word} ${node.name}`} title={HINTS[word]} onClick={() => onOrder({ word, node })}>{word}</button>
      ))}
    </span>
  );
}

/** A cluster places jobs itself, so its own command takes a node out of service. */
function ClusterCommand({ command, isNarrow }: { command: string; isNarrow: boolean }) {
  if (isNarrow) return <span title={command}><code>{command}</code> <CopyButton text={command} what="command" /></span>;
  return (
    <p class="hint">
      The cluster manages this node. Its administrator drains it with <code>{command}</code>{" "}
      <CopyButton text={command} what="command" />
    </p>
  );
}

interface DialogProps {
  order: Order;
  onClose: () => void;
  onDone: () => void;
}

export function OrderDialog({ order, onClose, onDone }: DialogProps) {
  const { word, node } = order;
  const fleet = useResource(`order ${node.name}`, (signal) => callApi<Fleet>("GET", "/nodes", { signal }));
  const notice = useSignal(NOTICE);
  const { problem, isBusy, run } = useAttempt();
  const jobs = fleet.value.value?.nodes.find((other) => other.name === node.name)?.jobs ?? node.jobs ?? [];
  const seconds = parseNotice(notice.value);
  const give = (event: Event): Promise<boolean> => {
    event.preventDefault();
    return run(async () => {
      const body = word === "maintain" ? { notice: `${seconds ?? 0}s` } : undefined;
      const answer = await callApi<NodeOrdered>("POST", `/nodes/${encodeURIComponent(node.name)}:${word}`, { body });
      announce("good", `${answer.message}.`);
      onDone();
      onClose();
    });
  };
  return (
    <Dialog title={`${TITLES[word]}: ${node.name}`} onClose={onClose}>
      <form onSubmit={(event) => void give(event)}>
        <Consequence word={word} jobs={jobs} notice={seconds} />
        {word === "maintain" && (
          <label class="field">Notice in seconds{" "}
            <input inputMode="decimal" size={6} value={notice.value} aria-invalid={seconds === null} onInput={(event) => (notice.value = event.currentTarget.value)} />
          </label>
        )}
        {word === "maintain" && seconds === null && <Notice tone="error">The notice must be a number of seconds from 0 to 99999, got {notice.value || "nothing"}.</Notice>}
        {problem.value && <ErrorNotice error={problem.value} />}
        <footer class="actions">
          <button type="button" onClick={onClose}>Back</button>
          <button type="submit" class={word === "maintain" && jobs.length > 0 ? "danger" : "primary"} disabled={isBusy.value || (word === "maintain" && seconds === null)}>{TITLES[word]}</button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Says what the order does, and lists the jobs on the node. */
function Consequence({ word, jobs, notice }: { word: OrderWord; jobs: readonly string[]; notice: number | null }) {
  const count = formatPlural(jobs.length, "job");
  const isOne = jobs.length === 1;
  const texts: Readonly<Record<OrderWord, string>> = {
    resume: "The node takes new replicas again.",
    drain: `The node takes no new replicas. ${jobs.length ? `${count} on it ${isOne ? "runs" : "run"} on to ${isOne ? "its" : "their"} end.` : "Nothing runs on it."}`,
    maintain: jobs.length
      ? `The node takes no new replicas. ${count} on it ${isOne ? "gets" : "get"} ${notice === null ? "…" : describeNotice(`${notice}s`)}, ${isOne ? "saves its" : "save their"} work, and ${isOne ? "starts" : "start"} again elsewhere or when the node is back:`
      : "The node takes no new replicas. Nothing runs on it, so no job gets notice.",
  };
  return (
    <>
      <p>{texts[word]}</p>
      {word !== "resume" && jobs.length > 0 && <ul class="order-jobs">{jobs.map((name) => <li key={name}><JobLink name={name} /></li>)}</ul>}
    </>
  );
}
