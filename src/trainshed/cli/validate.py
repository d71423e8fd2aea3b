"""``trainshed validate``: job files in, verdicts out."""

from collections.abc import Iterable
from typing import Any

from trainshed.cli.clusters import cluster_json, cluster_table, rulebook_of, violations_json
from trainshed.cli.failures import in_a_line, print_error
from trainshed.cli.flags import Request
from trainshed.cli.submit_options import given_flags
from trainshed.cli.terminal import out, out_json
from trainshed.workbench.validation import ValidatedFile, validate

EXIT_REFUSED = 1
EXIT_USAGE = 2


def run(request: Request) -> int:
    """Exit code 0 when all are valid, 1 when some are refused, 2 when one cannot be read."""
    args = request.args
    rulebook = rulebook_of(args)
    answers = list(validate(args.file, flags=given_flags(args), rulebook=rulebook))
    if args.format == "json":
        out_json([_as_json(answer, quota=args.quota) for answer in answers])
    else:
        for answer in answers:
            _print(answer, quota=args.quota)
    return _exit_code(answers)


def _exit_code(answers: Iterable[ValidatedFile]) -> int:
    codes = {EXIT_USAGE if a.is_no_job else 0 if a.valid else EXIT_REFUSED for a in answers}
    return max(codes, default=0)


def _as_json(answer: ValidatedFile, *, quota: bool) -> dict[str, Any]:
    verdict = answer.verdict
    found: dict[str, Any] = {"file": answer.file}
    if answer.position is not None:
        found["document"] = answer.position
    found["valid"] = answer.valid
    found["violations"] = violations_json(answer.violations)
    found["cluster"] = cluster_json(verdict.cluster) if verdict and verdict.valid else []
    if verdict and (reduction := verdict.reduction):
        found["reduction"] = {"text": f"{reduction.sentence}.", **reduction.numbers}
    if quota:
        over = verdict.over_quota if verdict and verdict.valid else ()
        found["within_quota"] = not over if answer.valid else None
        found["over_quota"] = violations_json(over)
    if answer.is_no_job:
        print_error(answer.complaint)
    return found


def _print(answer: ValidatedFile, *, quota: bool) -> None:
    if answer.is_no_job:
        print_error(answer.complaint)
        return
    if answer.verdict is None or not answer.valid:
        out(f"{answer.name}: refused")
        for violation in answer.violations:
            out(f"  {in_a_line(violation)}")
        return
    out(f"{answer.name}: valid")
    out(_indented(cluster_table(answer.verdict.cluster)))
    if reduction := answer.verdict.reduction:
        out(f"  reduction: {reduction.sentence}")
    if quota:
        over = answer.verdict.over_quota
        out(f"  quota: {'exceeded' if over else 'within the defaults'}")
        for violation in over:
            out(f"  {in_a_line(violation)}")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
