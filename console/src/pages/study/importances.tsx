/** How much each parameter decides the metric: bars, and the same as a table. */

import { showHidden } from "../../core/hidden";
import { ErrorNotice } from "../../ui/notice";
import { useImportances, type StudyName } from "./data";
import { Figure } from "../../ui/figure";
import type { StudyView } from "./view";

export function ImportanceBars({ view, name, changes }: { view: StudyView; name: StudyName; changes: number }) {
  const answer = useImportances(name, view.metric.id, view.study.state, changes);
  const shares = answer.value.value?.importances ?? [];
  const table = { heads: ["parameter", "share"], rows: () => shares.map(({ parameter, share }) => [parameter, String(share)]) };
  return (
    <Figure title="Importances" sentence={answer.value.value?.message ?? "Computing…"} table={shares.length > 0 ? table : undefined}>
      {answer.error.value && <ErrorNotice error={answer.error.value} retry={answer.reload} />}
      <ul class="bars">
        {shares.map(({ parameter, share }) => (
          <li key={parameter}>
            <span class="bar-name" title={showHidden(parameter)}>{showHidden(parameter)}</span>
            <span class="bar-track"><span class="bar-fill" style={{ width: `${Math.round(share * 1000) / 10}%` }} /></span>
            <span class="num">{(share * 100).toFixed(1)} %</span>
          </li>
        ))}
      </ul>
    </Figure>
  );
}
