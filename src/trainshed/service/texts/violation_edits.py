"""Finds edits of a text that repair violations.

Candidates come from the words of a violation: the name that it suggests, and the values that it
accepts.  The edited document is judged again, and an edit is offered only if its violation is gone
and no other has come.  So a wrong candidate costs only time.  Only a renamed field may have
violations that its old name did not have: the rules judge its value for the first time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.model.faults import Violation
from trainshed.service.texts.answers import TextEdit
from trainshed.service.texts.candidate_values import (
    MESSAGE_LENGTH_MAX,
    SUGGESTED,
    accelerators_of,
    candidate_values,
    machine_type_path,
)
from trainshed.service.texts.document_paths import has_value, value_at
from trainshed.service.texts.edits import (
    Edit,
    rename_key,
    set_value,
    set_values,
    wrap_spec,
)
from trainshed.service.texts.reading import TextJob, Unreadable, read_job_text

#: The most documents that are judged for the edits of one text; each costs a few milliseconds.
JUDGED_MAX: Final = 24
#: The most characters that are read for edits, all edited texts together.
CHARACTERS_MAX: Final = 200_000
#: The most violations for which edits are searched, for each document that may be judged.
SEARCHED_SHARE: Final = 4
#: The most candidates of one violation.
CANDIDATES_MAX: Final = 4

_DISPLAY_NAME: Final = "my-job"
_UNKNOWN_FIELD: Final = "unknown-field"

#: Returns all violations that refuse a changed text.
Rejudge = Callable[[TextJob], Sequence[Violation]]


@dataclass
class EditFinder:
    """Finds the edits of one text."""

    job: TextJob
    violations: Sequence[Violation]
    """All violations of the text."""
    judge: Rejudge
    free_job_id: str
    """An id that no job of the project has."""

    def __post_init__(self) -> None:
        self._keys = {_key(violation) for violation in self.violations}
        self._left = min(JUDGED_MAX, CHARACTERS_MAX // max(1, len(self.job.document.text)))
        self._searches_left = SEARCHED_SHARE * self._left

    def find(self, violation: Violation) -> TextEdit | None:
        """Return an edit that repairs a violation; None if none is known."""
        if not self._left or not self._searches_left:
            return None
        self._searches_left -= 1
        for edit, title in self._candidates(violation):
            self._left -= 1
            if self._repairs(edit, violation):
                return text_edit(self.job, edit, title)
            if not self._left:
                return None
        return None

    def _repairs(self, edit: Edit, violation: Violation) -> bool:
        try:
            job = read_job_text(edit.apply(self.job.document.text), self.job.location)
        except Unreadable:
            return False
        keys = {_key(v) for v in self.judge(job)}
        new_rules = {rule for _, rule in keys - self._keys}
        is_allowed = _UNKNOWN_FIELD not in new_rules and violation.rule == _UNKNOWN_FIELD
        return _key(violation) not in keys and (not new_rules or is_allowed)

    def _candidates(self, violation: Violation) -> Iterator[tuple[Edit, str]]:
        document, root, path = self.job.document, self.job.root, str(violation.field)
        if violation.rule == "not-a-job" and not path:
            if edit := wrap_spec(document, _DISPLAY_NAME):
                yield edit, "Make it a CustomJob"
            return
        suggested = SUGGESTED.search(violation.message, 0, MESSAGE_LENGTH_MAX)
        if violation.rule == _UNKNOWN_FIELD:
            if suggested and (edit := rename_key(document, root, path, suggested[1])):
                yield edit, f"Rename to {suggested[1]}"
            return
        if path and not path.startswith("--"):
            yield from self._list_settings(violation, path)

    def _list_settings(self, violation: Violation, path: str) -> Iterator[tuple[Edit, str]]:
        """Yield edits that set the field, then those that set one beside it."""
        document, root = self.job.document, self.job.root
        for value in self._list_values(violation, path)[:CANDIDATES_MAX]:
            if edit := set_value(document, root, path, value):
                yield edit, f"Use {value}"
        if (values := accelerators_of(violation)) and (edit := set_values(document, values)):
            yield edit, f"Use {violation.accepted}"
        machine_path = machine_type_path(path)
        if machine_path and (machine := value_at(document.content, machine_path)):
            for name in candidate_values(violation, machine)[:CANDIDATES_MAX]:
                if edit := set_value(document, root, machine_path, name):
                    yield edit, f"Use {name}"

    def _list_values(self, violation: Violation, path: str) -> Sequence[str]:
        content = self.job.document.content
        if violation.rule == "job-id":
            return [self.free_job_id]
        if violation.rule == "display-name" and not value_at(content, path):
            return [_DISPLAY_NAME]
        if has_value(content, path):
            return candidate_values(violation, value_at(content, path))
        only = candidate_values(violation, None)
        return only if len(only) == 1 else []


def _key(violation: Violation) -> tuple[str, str]:
    """Return what tells violations apart, also after a CustomJobSpec became a CustomJob."""
    return str(violation.field).removeprefix("jobSpec."), violation.rule


def text_edit(job: TextJob, edit: Edit, title: str) -> TextEdit:
    """Return an edit for the answer, with lines and columns."""
    begin, end = job.lines.position(edit.span.start), job.lines.position(edit.span.end)
    return TextEdit(
        line=begin.line,
        column=begin.column,
        end_line=end.line,
        end_column=end.column,
        text=edit.text,
        title=title,
    )
