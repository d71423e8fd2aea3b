/** The head of a job's page: name, state, times, restarts, and the orders that change the job. */

import { useSignal } from "@preact/signals";

import { jobTitle } from "../../core/fleet";
import { formatPlural } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { isEnded } from "../../core/queue";
import { curvesPath, studyPath, submitPath } from "../../core/route";
import { maySubmit } from "../../net/session";
import type { JobSummary, StoredDocument } from "../../net/types";
import { copyText } from "../../ui/clipboard";
import { Menu } from "../../ui/menu";
import type { Resource } from "../../ui/resource";
import { StateMark } from "../../ui/state";
import { Span, Time } from "../../ui/time";
import { copiesOf } from "./copies";
import { type JobStore } from "./data";
import { OrderDialog, type Order } from "./orders";
import { Progress } from "./progress";
import { isStudy } from "./tab";

interface HeaderProps {
  store: JobStore;
  summary: JobSummary;
  document: Resource<StoredDocument>;
}

export function Header({ store, summary, document }: HeaderProps) {
  const order = useSignal<Order | null>(null);
  const content = document.value.value;
  const studyOf = /\/jobs\/([^/]+)\/trials\//.exec(summary.name)?.[1];
  const labels = Object.entries((content?.document.labels ?? {}) as Record<string, unknown>);
  return (
    <header>
      <div class="job-title">
        <h1>{showHidden(summary.displayName)}</h1>
        <StateMark state={summary.state} />
        {summary.attempt > 1 && <span>attempt {summary.attempt}</span>}
        <Orders store={store} summary={summary} document={document} onOrder={(value) => (order.value = value)} />
      </div>
      <p class="job-facts">
        <span title={summary.name}>{store.project} / {jobTitle(summary.name)}</span>
        {content && <span>{KINDS[content.kind]}{content.location ? ` in ${content.location}` : ""}</span>}
        <span>by {showHidden(summary.creator)}</span>
        <Times summary={summary} />
        <Restarts summary={summary} />
        {labels.map(([key, value]) => <span key={key} class="job-label">{showHidden(`${key}: ${String(value)}`)}</span>)}
        {studyOf && <a href={studyPath(store.project, studyOf)}>trial of the study {showHidden(studyOf)}</a>}
        {isStudy(summary, content) && <a href={studyPath(store.project, store.job)}>Trials and charts of this study</a>}
      </p>
      {summary.state === "RUNNING" && <Progress store={store} summary={summary} />}
      {order.value && (
        <OrderDialog order={order.value} store={store} summary={summary} labels={labels.map(([key, value]) => [key, String(value)])}
          onClose={() => (order.value = null)} onDone={document.reload} />
      )}
    </header>
  );
}

const KINDS: Readonly<Record<StoredDocument["kind"], string>> = {
  AI_PLATFORM_JOB: "AI Platform job", CUSTOM_JOB: "custom job", TUNING_JOB: "tuning job",
  TRAINING_PIPELINE: "training pipeline", TRIAL: "trial",
};

function Times({ summary }: { summary: JobSummary }) {
  const { createTime, startTime, endTime } = summary;
  return (
    <>
      <span>created <Time value={createTime} /></span>
      {startTime && <span>started <Time value={startTime} /></span>}
      {endTime && <span>ended <Time value={endTime} /></span>}
      {startTime ? <span>ran <Span start={startTime} end={endTime ?? null} /></span> : !isEnded(summary) && <span>has waited <Span start={createTime} /></span>}
    </>
  );
}

function Restarts({ summary }: { summary: JobSummary }) {
  const { maintenance = 0, infra = 0, user = 0 } = summary.restarts ?? {};
  const all = maintenance + infra + user;
  if (all === 0) return null;
  const causes = [["maintenance", maintenance], ["infrastructure", infra], ["user", user]] as const;
  const text = causes.filter(([, count]) => count > 0).map(([cause, count]) => `${cause} ${count}`).join(", ");
  return <span>{formatPlural(all, "restart")}: {text}</span>;
}

interface OrdersProps extends HeaderProps {
  onOrder: (order: Order) => void;
}

function Orders({ store, summary, document, onOrder }: OrdersProps) {
  const content = document.value.value;
  const isOpen = !isEnded(summary);
  const isFixed = content?.kind === "TRIAL";
  return (
    <span class="job-orders">
      {maySubmit() && isOpen && <button type="button" class="danger" disabled={summary.state === "CANCELLING"} onClick={() => onOrder("cancel")}>Cancel…</button>}
      {maySubmit() && <a class="button" href={submitPath(store.project, store.job)}>Submit again…</a>}
      <CopyMenu summary={summary} content={content} />
      <Menu label="More" title="Labels, delete, compare">
        <a href={curvesPath([`${store.project}/${store.job}`])}>Curves beside other jobs</a>
        <a href={`/console/compare?left=${encodeURIComponent(`${store.project}/${store.job}`)}`}>Compare with another job</a>
        {maySubmit() && !isFixed && <button type="button" data-close onClick={() => onOrder("label")}>Labels…</button>}
        {maySubmit() && !isFixed && (
          <button type="button" data-close disabled={isOpen} title={isOpen ? "Only a job that has ended can be deleted" : undefined}
            onClick={() => onOrder("delete")}>Delete…</button>
        )}
      </Menu>
    </span>
  );
}

function CopyMenu({ summary, content }: { summary: JobSummary; content: StoredDocument | null }) {
  return (
    <Menu label="Copy as" title="Copy what shows or submits this job elsewhere">
      {copiesOf(summary.name, content, location.origin).map(({ title, text }) => (
        <button key={title} type="button" data-close onClick={() => void copyText(text, title)}>{title}</button>
      ))}
    </Menu>
  );
}
