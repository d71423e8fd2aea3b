/** One chosen trial: its result, why it ended, its job and log, its arguments. */

import { formatDuration, formatNumber, formatSpan } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { now } from "../../core/clock";
import { formatCost, formatGoodput, readCost } from "../../core/observed";
import { jobPath } from "../../core/route";
import { describePlace, describeRule, listArguments } from "../../core/study";
import type { TrialGoodput, TrialSummary } from "../../net/types";
import { CopyButton } from "../../ui/copy";
import { sentence } from "../../ui/notice";
import { StateMark } from "../../ui/state";
import type { StudyName } from "./data";
import { chooseTrial } from "./view";

interface TrialDetailProps {
  name: StudyName;
  trial: TrialSummary;
  /** Why the trial is one of the best; "" for any other. */
  lead: string;
  goodput: TrialGoodput | undefined;
}

export function TrialDetail({ name, trial, lead, goodput }: TrialDetailProps) {
  const stop = trial.earlyStop;
  const words = listArguments(trial);
  return (
    <section class="trial-detail" aria-label={`Trial ${trial.number}`}>
      <header>
        <h2>Trial {trial.number}{lead && ` (${lead})`}</h2>
        <StateMark state={trial.state} />
        <TrialLink name={name} trial={trial} />
        <a href={`${jobPath(name.project, trial.job)}?tab=environment`}>environment</a>
        <button type="button" class="plain" aria-label="Close" onClick={() => chooseTrial(null)}>✕</button>
      </header>
      <p class="wide">
        {Object.entries(trial.metrics).map(([id, value]) => `${showHidden(id)} ${formatNumber(value, 6)}`).join(", ") || "No value yet"}
        {trial.step ? ` at step ${trial.step}` : ""}
        {trial.startTime ? `; ran ${formatSpan(trial.startTime, trial.endTime, trial.endTime ? 0 : now.value)}` : ""}
        {goodput && goodput.held > 0 && `; goodput ${formatGoodput(goodput)} of ${formatDuration(goodput.held)} with machines; cost ${formatCost(readCost(goodput.cost))}`}
      </p>
      {trial.infeasibleReason && <p class="refusal">{sentence(trial.infeasibleReason)}</p>}
      {(trial.brokenLimits ?? []).map(({ metric, reason }) => <p key={metric} class="refusal">Beyond a limit: {showHidden(reason)}.</p>)}
      {trial.origin === "FIRST_POINT" && <p>Enqueued{trial.firstPoint && ` (${describePlace(trial.firstPoint)})`}: the caller wanted this point to be tried before the search.</p>}
      {trial.origin === "DEFAULTS" && <p>The first trial: it has the default values.</p>}
      {stop && (
        <table class="plain-table">
          <caption>{trial.state === "PAUSED" ? "Paused" : "Stopped early"}</caption>
          <thead><tr><th>rule</th>{stop.rung && <th>rung</th>}<th>at {stop.byTime ? "second" : "step"}</th><th>value</th><th>bar</th></tr></thead>
          <tbody><tr><td>{describeRule(stop.rule)}</td>{stop.rung && <td class="num">{stop.rung}</td>}<td class="num">{formatNumber(stop.at)}</td><td class="num">{formatNumber(stop.value, 6)}</td><td class="num">{formatNumber(stop.bar, 6)}</td></tr></tbody>
        </table>
      )}
      {stop && <p>{sentence(stop.reason)}</p>}
      {trial.state === "PAUSED" && <p>The study resumes it from its checkpoint if later trials make it one of the best of its rung.</p>}
      {trial.stoppedEarly && !stop && <p>A rule stopped it early; an older version of the server did not record why.</p>}
      {words && <p><code>{showHidden(words)}</code> <CopyButton text={words} what="arguments" label="copy arguments" /></p>}
    </section>
  );
}

export function TrialLink({ name, trial, tabIndex = 0 }: { name: StudyName; trial: TrialSummary; tabIndex?: number }) {
  return <a href={jobPath(name.project, trial.job)} tabIndex={tabIndex}>log</a>;
}
