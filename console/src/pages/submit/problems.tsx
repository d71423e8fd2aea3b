/** The problems of the text: each with its line, the accepted values, and an edit that repairs it. */

import { formatPlural } from "../../core/format";
import type { TextEdit, TextViolation } from "../../net/types";
import { sentence } from "../../ui/notice";

/** A text with more problems is no job: the first ones say so. */
const PROBLEMS_MAX = 100;

interface ProblemsProps {
  problems: readonly TextViolation[];
  onJump: (problem: TextViolation) => void;
  onUse: (edit: TextEdit) => void;
}

export function Problems({ problems, onJump, onUse }: ProblemsProps) {
  if (problems.length === 0) return null;
  const sorted = [...problems].sort((left, right) => (left.line ?? 0) - (right.line ?? 0) || (left.column ?? 0) - (right.column ?? 0));
  return (
    <section aria-label="Problems">
      <h2>{formatPlural(problems.length, "problem")}</h2>
      <ol class="problems">
        {sorted.slice(0, PROBLEMS_MAX).map((problem, index) => (
          <li key={`${problem.field} ${problem.rule} ${index}`}>
            <span class="sign" aria-hidden="true">✕</span>
            <div>
              {problem.line
                ? <button type="button" class="link" onClick={() => onJump(problem)}>line {problem.line}</button>
                : <b>{problem.field || "the text"}</b>}{" "}
              {problem.line && problem.field && <code>{problem.field}</code>} {sentence(problem.message)}
              {problem.accepted && <div class="hint">Accepted: {problem.accepted}</div>}
              {problem.edit && <UseButton edit={problem.edit} onUse={onUse} />}
            </div>
          </li>
        ))}
      </ol>
      {sorted.length > PROBLEMS_MAX && <p class="hint">And {formatPlural(sorted.length - PROBLEMS_MAX, "more problem")}, shown when these are repaired.</p>}
    </section>
  );
}

export function UseButton({ edit, onUse }: { edit: TextEdit; onUse: (edit: TextEdit) => void }) {
  return <button type="button" onClick={() => onUse(edit)}>{edit.title}</button>;
}
