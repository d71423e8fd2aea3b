"""``trainshed doctor``: checks the promises of Trainshed on a data directory."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trainshed.cli import flags
from trainshed.cli.terminal import DIM, paint, print_result, wants_colour
from trainshed.model.faults import UsageFault

if TYPE_CHECKING:
    from trainshed.config import Settings
    from trainshed.engines.base import ListedAttempt
    from trainshed.engines.several import Engines
    from trainshed.workbench.doctor.examine import DoctorReport

EXIT_FAILED: Final = 1
EXIT_UNSEEN: Final = 2

_COLOURS: Final = {
    "ok": "\x1b[32m",
    "noted": "\x1b[33m",
    "FAILED": "\x1b[1;31m",
    "unseen": "\x1b[1;33m",
}
_WIDTH: Final = max(map(len, _COLOURS))


DOCTOR_EXAMPLE = """\
  trainshed doctor
  trainshed doctor --data-dir /srv/trainshed --format json
  trainshed doctor --engine cluster"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Checks a data directory, its database and its processes against everything that "
        "Trainshed promises, whether its server runs or not, and changes nothing. Prints each "
        "promise with ok or FAILED, the fault and what to do. Exit code: 0 if all promises hold, 1 "
        "if one is broken, 2 if one cannot be checked.",
        example=DOCTOR_EXAMPLE,
    )
    add = flags.adder(parser)
    add("--data-dir DIR", "Data directory; default: TRAINSHED_DATA_DIR")
    add("--database URL", "The server's database; default: as in config.toml")
    add(
        "--engine NAME",
        "Run one small task on the nodes of this engine instead, and print its findings: "
        "versions, the shared folder from both sides, Python, clocks, the time to its first line",
    )
    flags.add_format(parser)
    return parser


def run(request: flags.Request) -> int:
    """Run all checks and print the report; return the exit code."""
    from trainshed.config import load_used_settings

    args = request.args
    settings = load_used_settings(
        os.environ, {"data_dir": args.data_dir, "database": args.database}
    )
    if not settings.data_dir.is_dir():
        raise UsageFault(f"there is no data directory {settings.data_dir}; give it with --data-dir")
    if args.engine:
        from trainshed.cli.admin.doctor_engine import examine_engine

        return examine_engine(args.engine, settings, as_json=args.format == "json")
    report = _examine(settings)
    text = "\n".join(_lines(report, colour=wants_colour("auto", sys.stdout)))
    print_result(args.format, _document(report), text)
    if "unseen" in report.words:
        return EXIT_UNSEEN
    return EXIT_FAILED if "FAILED" in report.words else 0


def _examine(settings: "Settings") -> "DoctorReport":
    from trainshed.config.engine import engines_of
    from trainshed.engines.container_runtime import NO_RUNTIME
    from trainshed.workbench.doctor.examine import examine
    from trainshed.workbench.doctor.looking import look

    with closing(
        engines_of(replace(settings, container_runtime=NO_RUNTIME, isolation=None))
    ) as engines:
        return examine(
            partial(
                look,
                settings.data_dir,
                settings.store_url,
                partial(_list_attempts, engines, on_this_machine=True),
                elsewhere=partial(_list_attempts, engines, on_this_machine=False),
                roots=engines.job_folders,
            )
        )


def _list_attempts(engines: "Engines", *, on_this_machine: bool) -> "Sequence[ListedAttempt]":
    """Return the attempts of the engines of this machine, or of the others.  Raises OSError."""
    from trainshed.engines.base import NodeLocation

    lists = [
        engine.list_attempts()
        for engine in engines
        if (engine.traits.reach is NodeLocation.THIS_MACHINE) is on_this_machine
    ]
    if not on_this_machine and (failed := next(iter(engines.failed.items()), None)):
        raise OSError(f"cannot make the engine {failed[0]}: {failed[1].message}")
    return [row for rows in lists for row in rows]


def _lines(report: "DoctorReport", *, colour: bool) -> Iterator[str]:
    for result in report.results:
        word = paint(f"{result.word:<{_WIDTH}}", _COLOURS[result.word], on=colour)
        name = paint(f"[{result.check.name}]", DIM, on=colour)
        yield f"{word}  {result.check.promise} {name}"
        for finding in result.findings:
            yield f"{'':<{_WIDTH}}    {finding.text}"
            yield f"{'':<{_WIDTH}}      -> {finding.advice}"
    yield ""
    yield from dict.fromkeys(r.unseen for r in report.results if r.unseen)
    if report.networks:
        yield report.networks
    yield f"checked {report.looked_at}"
    yield _summary(report)


def _summary(report: "DoctorReport") -> str:
    failed = sum(result.word == "FAILED" for result in report.results)
    unseen = sum(result.word == "unseen" for result in report.results)
    if not failed and not unseen:
        return f"all {len(report.results)} promises hold"
    parts = [f"{failed} of {len(report.results)} promises failed"] if failed else []
    parts += [f"{unseen} could not be checked"] if unseen else []
    return ", ".join(parts)


def _document(report: "DoctorReport") -> dict[str, Any]:
    return {
        "lookedAt": report.looked_at,
        "networks": report.networks,
        "checks": [
            {
                "id": result.check.name,
                "promise": result.check.promise,
                "result": result.word,
                **({"unseen": result.unseen} if result.unseen else {}),
                "findings": [
                    {
                        "subject": finding.subject,
                        "text": finding.text,
                        "advice": finding.advice,
                        "failure": finding.is_failure,
                    }
                    for finding in result.findings
                ],
            }
            for result in report.results
        ],
    }
