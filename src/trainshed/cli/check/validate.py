"""``trainshed validate``: checks the job documents of files against the catalog."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainshed.cli import flags
from trainshed.cli.check.clusters import cluster_json, cluster_table, rulebook_of, violations_json
from trainshed.cli.failures import print_error, violation_text
from trainshed.cli.job_flags import add_cluster_flags, submit_flags_of
from trainshed.cli.jobs.study_priors import read_priors
from trainshed.cli.jobs.study_starts import (
    list_start_lines,
    name_start_field,
    read_start_files,
    render_report,
)
from trainshed.cli.terminal import out, out_json
from trainshed.model.faults import UsageFault, Violation

if TYPE_CHECKING:
    from trainshed.model.study_start import StartCall
    from trainshed.service.jobs.judging import JudgedDocument, Rulebook
    from trainshed.service.jobs.refusing import Merged
    from trainshed.service.jobs.study_answers import StudyStartReport
    from trainshed.wire.documents import JobDocument

EXIT_REFUSED = 1
EXIT_USAGE = 2

EXAMPLE = """\
  trainshed validate config.yaml
  trainshed validate --edition 2020-05 --format json jobs/*.yaml
  trainshed validate config.yaml --worker-accelerator count=1,type=nvidia-tesla-t4
  trainshed validate hpt.yaml --warm-start results.csv --enqueue learning_rate=0.01
  trainshed validate hpt.yaml --prior learning_rate=0.01:wide"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Checks job files of either dialect against the catalog; prints all violations, or "
        "the cluster of a valid job.",
        example=EXAMPLE,
        usage=f"{prog} FILE... [flags]",
    )
    parser.add_argument("file", metavar="FILE", nargs="+", help="YAML or JSON; - reads stdin")
    add = flags.adder(parser)
    add(
        "--quota", "Also check whether valid jobs are within the default quota", action="store_true"
    )
    flags.add_format(parser)
    flags.add_study_start(parser)
    flags.add_priors(parser)
    flags.add_catalog_flags(parser)
    add_cluster_flags(parser, "they override the fields of every file")
    return parser


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedFile:
    """The result of checking one document.

    ``unreadable`` is set, and ``judgement`` is None, if the file cannot be read as a job (exit code
    2).  ``position`` is None for the only document of a file.
    """

    file: str
    position: int | None = None
    judgement: "JudgedDocument | None" = None
    unreadable: str | None = None
    start: "StudyStartReport | None" = None
    """What a study would have before its first trial."""

    @property
    def valid(self) -> bool:
        """Whether the document is a valid job."""
        return self.judgement is not None and self.judgement.valid

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All violations; a file that cannot be read has one, without a field."""
        if self.judgement:
            return self.judgement.violations
        message = self.unreadable or ""
        return (Violation(field="", rule="unreadable", message=message),)

    @property
    def is_no_job(self) -> bool:
        """Whether the file cannot be read as a job, so that it is not checked."""
        return self.judgement is None or self.judgement.question is None

    @property
    def fault(self) -> str:
        """Return the reason why the file cannot be read as a job, in one line."""
        return self.unreadable or f"{self.name}: {self.violations[0].message}"

    @property
    def name(self) -> str:
        """The file, with the number of the document where it holds several."""
        return self.file if self.position is None else f"{self.file} [{self.position}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _GivenFlags:
    """What the command line sets in every document."""

    submit: Mapping[str, str]
    labels: Mapping[str, str]

    def add_labels(self, merged: "Merged") -> "Merged":
        """Return the document with the labels."""
        from trainshed.service.jobs.merging import put

        if not self.labels:
            return merged
        content = copy.deepcopy(merged.content)
        for key, text in self.labels.items():
            put(content, ("labels", key), text)
        return replace(merged, content=content)


def run(request: flags.Request) -> int:
    """Return 0 if all documents are valid, 1 if one is refused, 2 if one cannot be read."""
    args = request.args
    rulebook = rulebook_of(args)
    start = read_start_files(args)
    given = _GivenFlags(submit=submit_flags_of(args), labels=dict(read_priors(args.prior)))
    results = [_match(result, start) for result in _validate(args.file, given, rulebook)]
    if args.format == "json":
        out_json([_as_json(result, quota=args.quota) for result in results])
    else:
        for result in results:
            _print(result, quota=args.quota)
    return _exit_code(results)


def _match(result: ValidatedFile, start: "StartCall") -> ValidatedFile:
    """Check what a study would have before its first trial, if the job is valid."""
    if result.judgement is None or not result.valid or not (start.results or start.points):
        return result
    from trainshed.service.jobs.start_matching import match_start

    question = result.judgement.question
    built = match_start(question.spec.study if question else None, start)
    if not isinstance(built, list):
        return replace(result, start=built.report)
    violations = tuple(
        replace(violation, field=name_start_field(str(violation.field), start))
        for violation in built
    )
    return replace(result, judgement=replace(result.judgement, violations=violations))


def _exit_code(results: Iterable[ValidatedFile]) -> int:
    codes = {EXIT_USAGE if r.is_no_job else 0 if r.valid else EXIT_REFUSED for r in results}
    return max(codes, default=0)


def _validate(
    files: Iterable[str], given: _GivenFlags, rulebook: "Rulebook"
) -> Iterator[ValidatedFile]:
    """Check every document of every file; the flags override its fields.

    A mistake of the command line, such as an unknown edition, raises UsageFault.  A mistake in a
    file becomes a result, so that the other files are still checked.
    """
    from trainshed.catalog.open import load_catalog
    from trainshed.workbench.documents import read

    if rulebook.edition:
        load_catalog(rulebook.edition, rulebook.overlays, rulebook.zone_snapshot)
    for file in files:
        try:
            documents = read(file)
        except UsageFault as fault:
            yield ValidatedFile(file=file, unreadable=str(fault))
            continue
        yield from _check_documents(file, documents, given, rulebook)


def _check_documents(
    file: str,
    documents: "Sequence[JobDocument]",
    given: _GivenFlags,
    rulebook: "Rulebook",
) -> Iterator[ValidatedFile]:
    from trainshed.service.jobs.judging import judge
    from trainshed.service.jobs.merging import merge_any

    for document in documents:
        position = document.position if len(documents) > 1 else None
        try:
            merged = merge_any(document.content, given.submit, source=file)
            judgement = judge(given.add_labels(merged), rulebook)
        except UsageFault as fault:
            yield ValidatedFile(file=file, position=position, unreadable=str(fault))
        else:
            yield ValidatedFile(file=file, position=position, judgement=judgement)


def _as_json(result: ValidatedFile, *, quota: bool) -> dict[str, Any]:
    judgement = result.judgement
    document: dict[str, Any] = {"file": result.file}
    if result.position is not None:
        document["document"] = result.position
    document["valid"] = result.valid
    document["violations"] = violations_json(result.violations)
    document["notes"] = list(judgement.notes) if judgement else []
    document["cluster"] = cluster_json(judgement.cluster) if judgement and judgement.valid else []
    if result.start:
        document["studyStart"] = render_report(result.start)
    if priors := list(_list_priors(result)):
        document["priors"] = priors
    if judgement and (reduction := judgement.reduction):
        document["reduction"] = {"text": f"{reduction.sentence}.", **reduction.numbers}
    if quota:
        over = judgement.over_quota if judgement and judgement.valid else ()
        document["within_quota"] = not over if result.valid else None
        document["over_quota"] = violations_json(over)
    if result.is_no_job:
        print_error(result.fault)
    return document


def _print(result: ValidatedFile, *, quota: bool) -> None:
    if result.is_no_job:
        print_error(result.fault)
        return
    if result.judgement is None or not result.valid:
        out(f"{result.name}: refused")
        for violation in result.violations:
            out(f"  {violation_text(violation)}")
        return
    out(f"{result.name}: valid")
    out(_indent(cluster_table(result.judgement.cluster)))
    for note in result.judgement.notes:
        out(f"  note: {note}")
    for line in list_start_lines(render_report(result.start)) if result.start else ():
        out(f"  {line}")
    if priors := list(_list_priors(result)):
        out(f"  expected: {', '.join(priors)}")
    if reduction := result.judgement.reduction:
        out(f"  reduction: {reduction.sentence}")
    if quota:
        over = result.judgement.over_quota
        out(f"  quota: {'exceeded' if over else 'within the defaults'}")
        for violation in over:
            out(f"  {violation_text(violation)}")


def _list_priors(result: ValidatedFile) -> Iterator[str]:
    """Yield where the labels of a valid study say that the best values are expected."""
    from trainshed.model.study_priors import describe_prior, priors_of_labels

    question = result.judgement.question if result.judgement and result.valid else None
    if question and (study := question.spec.study):
        yield from map(describe_prior, priors_of_labels(study, question.spec.labels))


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
