/** What the server says about a job besides its state: warnings, step times, gains, forecasts. */

import { callApi } from "../../net/api";
import type { JobExplanation, JobSummary } from "../../net/types";
import { Notice, sentence } from "../../ui/notice";
import { useResource } from "../../ui/resource";
import type { JobStore } from "./data";

export function Explanation({ store, summary }: { store: JobStore; summary: JobSummary }) {
  const explanation = useResource(`explain ${summary.uid} ${summary.state} ${summary.attempt}`, (signal) =>
    callApi<JobExplanation>("GET", `${store.resource}/explain`, { signal }));
  const content = explanation.value.value;
  if (content === null) return null;
  const isStudy = summary.ending !== null && summary.ending !== undefined;
  const texts = [isStudy ? content.message : null, content.steps, content.reduction, content.outcome].filter((text) => typeof text === "string");
  return (
    <>
      {content.warning && <Notice tone="warning">{sentence(content.warning)}</Notice>}
      {texts.map((text) => <p key={text} class="job-remark">{sentence(text)}</p>)}
    </>
  );
}
