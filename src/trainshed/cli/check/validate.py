"""``trainshed validate``: many files, one catalog, an answer for each document."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainshed.cli import flags
from trainshed.cli.check.clusters import cluster_json, cluster_table, rulebook_of, violations_json
from trainshed.cli.failures import print_error, violation_text
from trainshed.cli.job_flags import add_cluster_flags, submit_flags_of
from trainshed.cli.terminal import out, out_json
from trainshed.model.faults import UsageFault, Violation

if TYPE_CHECKING:
    from trainshed.service.jobs.judging import JudgedDocument, Rulebook
    from trainshed.workbench.documents import JobDocument

EXIT_REFUSED = 1
EXIT_USAGE = 2

EXAMPLE = """\
  trainshed validate config.yaml
  trainshed validate --edition 2020-05 --format json jobs/*.yaml
  trainshed validate config.yaml --worker-accelerator count=1,type=nvidia-tesla-t4"""


def parser(prog: str) -> flags.Parser:
    """The command line of ``trainshed validate``."""
    parser = flags.Parser(
        prog,
        summary="Checks job files of either dialect against the catalog; prints every violation, "
        "or the cluster that the job would have.",
        example=EXAMPLE,
        usage=f"{prog} FILE... [flags]",
    )
    parser.add_argument("file", metavar="FILE", nargs="+", help="YAML or JSON; - reads stdin")
    parser.add_argument(
        "--quota", action="store_true", help="Say too whether valid jobs are within default quota"
    )
    flags.add_format(parser)
    flags.add_catalog_flags(parser)
    add_cluster_flags(parser, "override fields of every file")
    return parser


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedFile:
    """What was found about one document.

    ``unreadable`` is set where the file cannot be read as a job at all (exit code 2); there is no
    judgement then.  ``position`` is None for the only document of a file.
    """

    file: str
    position: int | None = None
    judgement: "JudgedDocument | None" = None
    unreadable: str | None = None

    @property
    def valid(self) -> bool:
        """Whether the document is a valid job."""
        return self.judgement is not None and self.judgement.valid

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All that is wrong; a file that cannot be read has one violation, without a field."""
        if self.judgement:
            return self.judgement.violations
        message = self.unreadable or ""
        return (Violation(field="", rule="unreadable", message=message),)

    @property
    def is_no_job(self) -> bool:
        """Whether the file cannot be read as a job at all: a fault of writing, not a refusal."""
        return self.judgement is None or self.judgement.question is None

    @property
    def complaint(self) -> str:
        """Why the file is no job, in a line."""
        return self.unreadable or f"{self.name}: {self.violations[0].message}"

    @property
    def name(self) -> str:
        """The file, with the number of the document where it holds several."""
        return self.file if self.position is None else f"{self.file} [{self.position}]"


def run(request: flags.Request) -> int:
    """Exit code 0 when all are valid, 1 when some are refused, 2 when one cannot be read."""
    args = request.args
    rulebook = rulebook_of(args)
    answers = list(_validate(args.file, submit_flags_of(args), rulebook))
    if args.format == "json":
        out_json([_as_json(answer, quota=args.quota) for answer in answers])
    else:
        for answer in answers:
            _print(answer, quota=args.quota)
    return _exit_code(answers)


def _exit_code(answers: Iterable[ValidatedFile]) -> int:
    codes = {EXIT_USAGE if a.is_no_job else 0 if a.valid else EXIT_REFUSED for a in answers}
    return max(codes, default=0)


def _validate(
    files: Iterable[str], submit_flags: Mapping[str, str], rulebook: "Rulebook"
) -> Iterator[ValidatedFile]:
    """Judge every document of every file; ``submit_flags`` override its fields.

    Faults of the command line (an unknown edition, flag or overlay) raise UsageFault; faults of a
    file become an answer, so that one broken file does not hide the others.
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
        yield from _answers(file, documents, submit_flags, rulebook)


def _answers(
    file: str,
    documents: "Sequence[JobDocument]",
    submit_flags: Mapping[str, str],
    rulebook: "Rulebook",
) -> Iterator[ValidatedFile]:
    from trainshed.service.jobs.judging import judge
    from trainshed.workbench.merging import merge_any

    for document in documents:
        position = document.position if len(documents) > 1 else None
        try:
            judgement = judge(merge_any(document.content, submit_flags, source=file), rulebook)
        except UsageFault as fault:
            yield ValidatedFile(file=file, position=position, unreadable=str(fault))
        else:
            yield ValidatedFile(file=file, position=position, judgement=judgement)


def _as_json(answer: ValidatedFile, *, quota: bool) -> dict[str, Any]:
    judgement = answer.judgement
    document: dict[str, Any] = {"file": answer.file}
    if answer.position is not None:
        document["document"] = answer.position
    document["valid"] = answer.valid
    document["violations"] = violations_json(answer.violations)
    document["notes"] = list(judgement.notes) if judgement else []
    document["cluster"] = cluster_json(judgement.cluster) if judgement and judgement.valid else []
    if judgement and (reduction := judgement.reduction):
        document["reduction"] = {"text": f"{reduction.sentence}.", **reduction.numbers}
    if quota:
        over = judgement.over_quota if judgement and judgement.valid else ()
        document["within_quota"] = not over if answer.valid else None
        document["over_quota"] = violations_json(over)
    if answer.is_no_job:
        print_error(answer.complaint)
    return document


def _print(answer: ValidatedFile, *, quota: bool) -> None:
    if answer.is_no_job:
        print_error(answer.complaint)
        return
    if answer.judgement is None or not answer.valid:
        out(f"{answer.name}: refused")
        for violation in answer.violations:
            out(f"  {violation_text(violation)}")
        return
    out(f"{answer.name}: valid")
    out(_indented(cluster_table(answer.judgement.cluster)))
    for note in answer.judgement.notes:
        out(f"  note: {note}")
    if reduction := answer.judgement.reduction:
        out(f"  reduction: {reduction.sentence}")
    if quota:
        over = answer.judgement.over_quota
        out(f"  quota: {'exceeded' if over else 'within the defaults'}")
        for violation in over:
            out(f"  {violation_text(violation)}")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
