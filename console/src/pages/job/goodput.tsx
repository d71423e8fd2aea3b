/** Goodput: which part of the time that a job held its machines was productive, and what it cost. */

import { formatCount, formatDuration } from "../../core/format";
import { amountsOf, describePrices, formatAmount, formatEnergy, formatGoodput, formatHours, formatShare, formatShortCost, readCost, sharesOf, sumOf, usesOf } from "../../core/observed";
import { isEnded } from "../../core/queue";
import { jobResource } from "../../core/route";
import { callApi } from "../../net/api";
import type { JobGoodput } from "../../net/types";
import { ErrorNotice, sentence } from "../../ui/notice";
import { useRefreshed } from "../../ui/resource";
import { TimeBar, type Shares } from "../../ui/time_bar";
import type { TabProps } from "./tab";

const REFRESH_MS = 15000;

export default function Goodput({ store, summary }: TabProps) {
  const path = jobResource(store.project, store.job);
  const goodput = useRefreshed(`goodput ${summary.uid} ${summary.state} ${summary.attempt}`, isEnded(summary) ? 0 : REFRESH_MS, (signal) =>
    callApi<JobGoodput>("GET", `${path}/goodput`, { signal }));
  const answer = goodput.value.value;
  const error = goodput.error.value;
  return (
    <section aria-label="Goodput" class="goodput">
      {error && <ErrorNotice error={error} retry={goodput.reload} />}
      {!answer && !error && <p class="loading" role="status">Loading…</p>}
      {answer && <Figures goodput={answer} />}
    </section>
  );
}

function Figures({ goodput }: { goodput: JobGoodput }) {
  const shares = sharesOf(usesOf(goodput, goodput.seconds));
  const cost = readCost(goodput.cost);
  return (
    <>
      <p class="goodput-message">{sentence(goodput.message)}</p>
      <dl class="big-figures">
        <Big title="Goodput" text={formatGoodput(goodput)} hint="productive of the time with machines" />
        <Big title="Scheduling" text={formatShare(goodput.scheduling)} hint="time with machines of all time" />
        <Big title="ETTR" text={formatShare(goodput.ettr)} hint="productive of all time" />
        <Big title="Program" text={formatShare(goodput.program)} hint="steps per second of the predicted ones" />
        <Big title="Cost" text={formatShortCost(cost)} hint={cost ? describePrices(cost) : "the job has held no machine"} />
        <Big title="Energy of GPUs" text={formatEnergy(goodput.energy_j)} hint={goodput.energy_j === null ? "not measured" : "while the job held them"} />
      </dl>
      {shares.length > 0 && <TimeBar shares={shares} label="Time with machines" />}
      <div class="goodput-tables">
        <Parts goodput={goodput} shares={shares} />
        {goodput.attempts.length > 0 && <Attempts goodput={goodput} />}
      </div>
    </>
  );
}

function Big({ title, text, hint }: { title: string; text: string; hint: string }) {
  return <div><dt>{title}</dt><dd><b class="num">{text}</b><span class="hint">{hint}</span></dd></div>;
}

function Parts({ goodput, shares }: { goodput: JobGoodput; shares: Shares }) {
  const { seconds, gpu_seconds: gpus } = goodput;
  const all = readCost(goodput.cost);
  const cost = all?.amount === null ? null : all;
  const hasGpus = sumOf(gpus) > 0;
  const amounts = amountsOf(goodput, cost?.parts ?? {});
  const idle = cost?.parts.idle ?? 0;
  const waits = [["first_wait", "waited for machines"], ["other_waits", "waited after a restart"]] as const;
  return (
    <div class="scroll">
      <table class="plain-table">
        <caption>Where the time went</caption>
        <thead><tr><th>part</th><th class="num">time</th><th class="num">share</th>{hasGpus && <th class="num">GPU hours</th>}{cost && <th class="num">{cost.currency ?? "cost"}</th>}<th>is</th></tr></thead>
        <tbody>
          {shares.map(({ id, title, meaning, seconds: length, share }) => (
            <tr key={id}>
              <th scope="row"><span class={`bucket-sign b-${id}`} aria-hidden="true" /> {title}</th>
              <td class="num">{formatDuration(length)}</td><td class="num">{formatShare(share)}</td>
              {hasGpus && <td class="num">{formatHours(usesOf(goodput, gpus)[id] ?? 0)}</td>}
              {cost && <td class="num">{formatAmount(amounts[id] ?? 0)}</td>}
              <td class="hint">{meaning}</td>
            </tr>
          ))}
          {idle > 0 && (
            <tr><th scope="row"><span class="bucket-sign b-idle" aria-hidden="true" /> of it idle</th><td class="num">–</td><td class="num">–</td>{hasGpus && <td class="num">–</td>}<td class="num">{formatAmount(idle)}</td><td class="hint">the cost while a GPU ran nothing, part of the rows above</td></tr>
          )}
          {waits.map(([id, title]) => (seconds[id] ?? 0) > 0 && (
            <tr key={id}><th scope="row">{title}</th><td class="num">{formatDuration(seconds[id] ?? 0)}</td><td class="num">–</td>{hasGpus && <td class="num">0</td>}{cost && <td class="num">0</td>}<td class="hint">holds no machine</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Attempts({ goodput }: { goodput: JobGoodput }) {
  const bound = goodput.attempts.some(({ goodput: own }) => own === null);
  return (
    <div class="scroll">
      <table class="plain-table">
        <caption>Attempts</caption>
        <thead><tr><th class="num">attempt</th><th class="num">steps</th><th class="num">goodput</th><th>time with machines</th></tr></thead>
        <tbody>
          {goodput.attempts.map((attempt) => (
            <tr key={attempt.attempt}>
              <td class="num">{attempt.attempt}</td>
              <td class="num">{attempt.last_step === null ? "–" : `${formatCount(attempt.first_step ?? 0)} – ${formatCount(attempt.last_step)}`}</td>
              <td class="num">{formatGoodput(attempt)}</td>
              <td class="attempt-bar"><TimeBar shares={sharesOf(usesOf(attempt, attempt.seconds))} label={`Attempt ${attempt.attempt}`} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {bound && <p class="hint">An attempt without steps has a bound, not a number: a trainer that calls <code>progress(step=…)</code> has both.</p>}
    </div>
  );
}
