/** What a study searches and how far it is: the lines above its charts. */

import { formatCount, formatNumber, formatPlural } from "../../core/format";
import { showHidden } from "../../core/hidden";
import { sharesOf, usesOf } from "../../core/observed";
import { jobPath } from "../../core/route";
import { setQuery } from "../../core/router";
import { describeRule } from "../../core/study";
import { nameJobs } from "../../net/job_names";
import type { JobGoodput, StudyDescription, TrialSummary } from "../../net/types";
import { sentence } from "../../ui/notice";
import { StateMark } from "../../ui/state";
import { TimeBar } from "../../ui/time_bar";
import type { StudyName } from "./data";
import { chooseTrial, FRONT, PERCENTS, type StudyView } from "./view";

const ALGORITHMS: Readonly<Record<StudyDescription["algorithm"], string>> = {
  DEFAULT: "Bayesian optimization", GRID_SEARCH: "grid search", RANDOM_SEARCH: "random search",
};

export function Head({ study, trials, name }: { study: StudyDescription; trials: readonly TrialSummary[]; name: StudyName }) {
  const { counts } = study;
  const parts = [
    `${formatCount(counts.made)} of ${formatCount(study.trialCountMax)} trials`,
    counts.running ? `${counts.running} running` : "",
    counts.waiting ? `${counts.waiting} waiting` : "",
    counts.paused ? `${formatCount(counts.paused)} paused at rungs` : "",
    counts.succeeded ? `${formatCount(counts.succeeded)} succeeded` : "",
    counts.infeasible ? `${formatCount(counts.infeasible)} infeasible` : "",
    counts.stoppedEarly ? `${formatCount(counts.stoppedEarly)} of these stopped early` : "",
  ].filter(Boolean);
  return (
    <>
      <div class="study-head">
        <h1>{showHidden(study.displayName)}</h1>
        <StateMark state={study.state} />
        <a href={jobPath(name.project, name.job)}>job page</a>
      </div>
      <p>{parts.join(" · ")} · at most {study.trialCountParallel} at once · {ALGORITHMS[study.algorithm]}{study.stopping ? ` · early stops by the ${describeRule(study.stopping)}` : ""}</p>
      {study.message && study.state !== "SUCCEEDED" && <p class="hint">{sentence(nameJobs(study.message))}</p>}
      {study.safety && <p>Limits: {showHidden(study.safety)}.</p>}
      {study.priors && <p>Expected: {showHidden(study.priors)}.</p>}
      <Start study={study} />
      <Leaders study={study} trials={trials} />
    </>
  );
}

/** The goodput and the cost of all trials, and where their time went. */
export function StudyTime({ goodput, name }: { goodput: JobGoodput; name: StudyName }) {
  const shares = sharesOf(usesOf(goodput, goodput.seconds));
  return (
    <section aria-label="Goodput">
      <p>{sentence(goodput.message)} <a href={`${jobPath(name.project, name.job)}?tab=goodput`}>Where the time went</a></p>
      {shares.length > 0 && <TimeBar shares={shares} label="Time with machines" />}
    </section>
  );
}

/** Says from which results and points the search began. */
function Start({ study }: { study: StudyDescription }) {
  const sources = (study.knownSources ?? []).map(({ name, used, ignored }) => `${formatCount(used)} of ${showHidden(name) || "the request"}${ignored ? ` (${formatCount(ignored)} ignored)` : ""}`);
  return (
    <>
      {sources.length > 0 && <p>Known results used: {sources.join(", ")}.</p>}
      {sources.length === 0 && study.knownResults > 0 && <p>Known results used: {formatCount(study.knownResults)}.</p>}
      {study.firstPoints > 0 && <p>Enqueued: {formatPlural(study.firstPoints, "point")} to try before the search.</p>}
    </>
  );
}

const LEADERS_SHOWN = 10;

function Leaders({ study, trials }: { study: StudyDescription; trials: readonly TrialSummary[] }) {
  if (study.leaders.length === 0) return null;
  const size = study.frontSize ?? study.leaders.length;
  const byNumber = new Map(trials.map((trial) => [trial.number, trial]));
  const metrics = study.metrics.map(({ id }) => id);
  return (
    <p>
      <b>{study.frontSize ? `Pareto front of ${formatPlural(study.frontSize, "trial")}` : "Best"}:</b>{" "}
      {study.leaders.slice(0, LEADERS_SHOWN).map((number, index) => {
        const trial = byNumber.get(number);
        const values = metrics.filter((id) => trial?.metrics[id] !== undefined).map((id) => `${showHidden(id)} ${formatNumber(trial?.metrics[id] ?? NaN, 6)}`);
        return (
          <span key={number}>
            {index > 0 && ", "}<button type="button" class="link" onClick={() => chooseTrial(number)}>trial {number}</button>{values.length > 0 && ` (${values.join(", ")})`}
          </span>
        );
      })}
      {size > LEADERS_SHOWN && ` and ${formatPlural(size - LEADERS_SHOWN, "more trial")}`}
    </p>
  );
}

/** Return the word of a share of the trials in an address; all of them need none. */
function nameShare(percent: string): string | null {
  if (percent === String(FRONT)) return "front";
  return percent === "100" ? null : percent;
}

/** Which metric the charts show, which share of the trials, on which axis. */
export function Controls({ view }: { view: StudyView }) {
  const isPositive = view.rated.every(({ value }) => value > 0);
  return (
    <div class="tools controls">
      {view.study.metrics.length > 1 && (
        <label>metric{" "}
          <select value={view.metric.id} onChange={(event) => setQuery({ metric: event.currentTarget.value })}>
            {view.study.metrics.map(({ id }) => <option key={id} value={id}>{id}</option>)}
          </select>
        </label>
      )}
      <label>trials{" "}
        <select value={String(view.percent)} onChange={(event) => setQuery({ best: nameShare(event.currentTarget.value) })}>
          {view.isFront && <option value={String(FRONT)}>Pareto front</option>}
          {PERCENTS.map((percent) => <option key={percent} value={String(percent)}>{percent === 100 ? "all" : `best ${percent} %`}</option>)}
        </select>
      </label>
      <label class="check" title={isPositive ? "" : `Some values of ${view.metric.id} are not above 0`}>
        <input type="checkbox" checked={view.isLog} disabled={!isPositive} onChange={(event) => setQuery({ log: event.currentTarget.checked ? "1" : null })} /> log axis of {showHidden(view.metric.id)}
      </label>
    </div>
  );
}
