/** Study: how a search goes, which trial is best, why others ended, which parameters decide. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { showHidden } from "../../core/hidden";
import type { Route } from "../../core/route";
import { setQuery } from "../../core/router";
import { isInRanges, readRanges, writeRanges, type Ranges } from "../../core/study";
import { lazy } from "../../ui/lazy";
import { ErrorNotice } from "../../ui/notice";
import { Curves } from "./curves";
import { GOODPUT_TRIALS_MAX, useGoodput, useStudy, type StudyData, type StudyGoodput, type StudyName } from "./data";
import { Controls, Head, StudyTime } from "./head";
import { Front } from "./front";
import { FrontHistory } from "./front_growth";
import { History } from "./history";
import { ImportanceBars } from "./importances";
import { TrialDetail } from "./trial";
import { TrialsTable } from "./trials_table";
import { viewOf, type StudyView } from "./view";

const Parallel = lazy(() => import("./parallel"));
const Scatter = lazy(() => import("./scatter"));

export default function StudyPage({ route }: { route: Route }) {
  const name: StudyName = { project: route.parameters.project ?? "", job: route.parameters.job ?? "" };
  const data = useStudy(name);
  const study = data.study.value.value;
  const query = route.query;
  useEffect(() => {
    document.title = `${showHidden(study?.displayName ?? "Study")} – Trainshed`;
  }, [study?.displayName]);
  const words = ["metric", "best", "log", "trial"].map((word) => query.get(word) ?? "").join(" ");
  const view = useMemo(() => (study ? viewOf(study, data.trials.value, query) : null), [study, data.trials.value, words]);
  const isWanted = useSignal(false);
  const isLarge = data.trials.value.length > GOODPUT_TRIALS_MAX;
  const goodput = useGoodput(name, study?.state ?? "", study !== null && !data.loading.value && (isWanted.value || !isLarge));
  const answer = goodput.value.value;
  const error = data.study.error.value ?? data.error.value;
  return (
    <main id="main" tabIndex={-1} class="study">
      {error && <ErrorNotice error={error} retry={data.study.reload} />}
      {!study && !error && <p class="loading" role="status">Loading…</p>}
      {study && <Head study={study} trials={data.trials.value} name={name} />}
      {goodput.error.value && <ErrorNotice error={goodput.error.value} retry={goodput.reload} />}
      {answer && data.trials.value.length > 0 && <StudyTime goodput={answer.study} name={name} />}
      {!answer && !goodput.error.value && isLarge && <p><button type="button" disabled={isWanted.value} onClick={() => (isWanted.value = true)}>{isWanted.value ? "Reading…" : "Goodput and cost of the trials"}</button></p>}
      {view && <Charts view={view} name={name} data={data} goodput={answer} query={query} />}
    </main>
  );
}

interface ChartsProps {
  view: StudyView;
  name: StudyName;
  data: StudyData;
  goodput: StudyGoodput | null;
  query: URLSearchParams;
}

function Charts({ view, name, data, goodput, query }: ChartsProps) {
  const ranges = useSignal<Ranges>(readRanges(query.getAll("range")));
  useEffect(() => {
    const timer = setTimeout(() => setQuery({ range: writeRanges(ranges.value) }), 400);
    return () => clearTimeout(timer);
  }, [ranges.value]);
  const settled = useSettled(ranges.value);
  const inRanges = useTrialsInRanges(view, settled);
  const chosen = view.trials.find((trial) => trial.number === view.chosen);
  const changes = data.changes.value;
  if (view.trials.length === 0) return <NoTrials isLoading={data.loading.value} />;
  return (
    <>
      <Controls view={view} />
      {chosen && <TrialDetail name={name} trial={chosen} lead={!view.study.leaders.includes(chosen.number) ? "" : view.isFront ? "in the Pareto front" : "best"} goodput={goodput?.trials.get(chosen.number)} />}
      <div class="figures">
        {view.isFront && <Front view={view} />}
        {view.isFront && <FrontHistory view={view} />}
        <History view={view} />
        <ImportanceBars view={view} name={name} changes={changes} />
        <Parallel view={view} ranges={ranges.value} onRanges={(next) => (ranges.value = next)} />
        <Curves view={view} name={name} changes={changes} />
        <Scatter view={view} />
        <TrialsTable view={view} name={name} trials={inRanges} goodput={goodput} />
      </div>
    </>
  );
}

/** Return a value after it has stayed the same for 100 ms: the table waits while one drags. */
function useSettled<T>(value: T): T {
  const settled = useSignal(value);
  useEffect(() => {
    const timer = setTimeout(() => (settled.value = value), 100);
    return () => clearTimeout(timer);
  }, [value]);
  return settled.value;
}

/** Return all trials; with ranges or a share of the best only those inside, which all have a value. */
function useTrialsInRanges(view: StudyView, ranges: Ranges) {
  return useMemo(() => {
    if (Object.keys(ranges).length === 0 && view.percent === 100) return view.trials;
    return view.best.map(({ trial }) => trial).filter((trial) => isInRanges(trial, view.axes, ranges)).sort((left, right) => left.number - right.number);
  }, [view, ranges]);
}

function NoTrials({ isLoading }: { isLoading: boolean }) {
  if (isLoading) return <p class="loading" role="status">Loading the trials…</p>;
  return <p>No trial has been made yet. The first ones appear here within seconds, with their values, curves and why they ended.</p>;
}
