"""The use case of ``validate``: many files, one catalog, an answer for each document."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainshed.model.faults import UsageFault, Violation
from trainshed.service.judging import Judgement, Rulebook, judge, load_catalog
from trainshed.workbench.documents import Document, read
from trainshed.workbench.merging import merge_any


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedFile:
    """What was found about one document.

    ``unreadable`` is set where the file cannot be read as a job at all (exit code 2); there is no
    verdict then.  ``position`` is None for the only document of a file.
    """

    file: str
    position: int | None = None
    verdict: Judgement | None = None
    unreadable: str | None = None

    @property
    def valid(self) -> bool:
        """Whether the document is a valid job."""
        return self.verdict is not None and self.verdict.valid

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All that is wrong; a file that cannot be read has one violation, without a field."""
        if self.verdict:
            return self.verdict.violations
        message = self.unreadable or ""
        return (Violation(field="", rule="unreadable", message=message),)

    @property
    def is_no_job(self) -> bool:
        """Whether the file cannot be read as a job at all: a fault of writing, not a refusal."""
        return self.verdict is None or self.verdict.question is None

    @property
    def complaint(self) -> str:
        """Why the file is no job, in a line."""
        return self.unreadable or f"{self.name}: {self.violations[0].message}"

    @property
    def name(self) -> str:
        """The file, with the number of the document where it holds several."""
        return self.file if self.position is None else f"{self.file} [{self.position}]"


def validate(
    files: Iterable[str], *, flags: Mapping[str, str], rulebook: Rulebook
) -> Iterator[ValidatedFile]:
    """Judge every document of every file; ``flags`` override fields of each of them.

    Faults of the command line (an unknown edition, flag or overlay) raise UsageFault; faults of a
    file become an answer, so that one broken file does not hide the others.
    """
    if rulebook.edition:
        load_catalog(rulebook.edition, rulebook.overlays, rulebook.zone_snapshot)
    for file in files:
        try:
            documents = read(file)
        except UsageFault as fault:
            yield ValidatedFile(file=file, unreadable=str(fault))
            continue
        yield from _answers(file, documents, flags, rulebook)


def _answers(
    file: str, documents: Sequence[Document], flags: Mapping[str, str], rulebook: Rulebook
) -> Iterator[ValidatedFile]:
    for document in documents:
        position = document.position if len(documents) > 1 else None
        try:
            verdict = judge(merge_any(document.content, flags, source=file), rulebook)
        except UsageFault as fault:
            yield ValidatedFile(file=file, position=position, unreadable=str(fault))
        else:
            yield ValidatedFile(file=file, position=position, verdict=verdict)
