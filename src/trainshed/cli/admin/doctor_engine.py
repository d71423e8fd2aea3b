"""``trainshed doctor --engine NAME``: checks the nodes of an engine with a small task."""

import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Final

from trainshed.cli.signals import exit_on_sigterm
from trainshed.cli.terminal import out, out_json, paint, wants_colour
from trainshed.config import Settings
from trainshed.config.engine import engines_of
from trainshed.engines.base import Engine, EngineFinding
from trainshed.engines.capabilities import SupportsProbe
from trainshed.model.faults import EngineFault, UsageFault

_FAILED: Final = 1
_UNSEEN: Final = 2
_COLOURS: Final = {
    "ok": "\x1b[32m",
    "noted": "\x1b[33m",
    "FAILED": "\x1b[1;31m",
    "unseen": "\x1b[1;33m",
}
_WIDTH: Final = max(map(len, _COLOURS))


def examine_engine(name: str, settings: Settings, *, as_json: bool) -> int:
    """Run the task and print its findings; return the exit code.

    Raises UsageFault; KeyboardInterrupt and SystemExit if a signal stops the task, which then
    leaves no job and no file on the cluster.
    """
    findings: list[EngineFinding] = []
    with (
        exit_on_sigterm(),
        closing(_engine(name, settings)) as engine,
        closing(_run_probe(engine)) as probe,
    ):
        for finding in probe:
            findings.append(finding)
            if not as_json:
                out("\n".join(_lines(finding)))
                sys.stdout.flush()
    words = {_word(finding) for finding in findings}
    if as_json:
        out_json({"engine": name, "checks": [_document(finding) for finding in findings]})
    if "unseen" in words:
        return _UNSEEN
    return _FAILED if "FAILED" in words else 0


def _engine(name: str, settings: Settings) -> Engine:
    engines = engines_of(settings)
    if name in engines.served:
        return engines.get_by_name(name)
    if why := engines.failed.get(name):
        raise UsageFault(f"cannot make the engine {name!r} of --engine: {why.message}")
    accepted = ", ".join(sorted(engines.served))
    raise UsageFault(f"--engine must be one of {accepted}, got {name!r}")


def _run_probe(engine: Engine) -> Generator[EngineFinding, None, None]:
    if not isinstance(engine, SupportsProbe):
        raise UsageFault(
            f"--engine must be an engine with other machines, and {engine.name} runs on this "
            "machine; check it with: trainshed doctor"
        )
    try:
        yield from engine.probe()
    except (EngineFault, OSError) as fault:
        advice = (
            f"correct the [[engine]] table {engine.name!r}, or try the cluster by hand as the "
            "server's user: sinfo for Slurm, kubectl get jobsets for Kubernetes"
        )
        yield EngineFinding("answer", is_well=False, found=str(fault), advice=advice)


def _word(finding: EngineFinding) -> str:
    if finding.check == "answer":
        return "unseen"
    if finding.is_well:
        return "ok"
    return "FAILED" if finding.is_needed else "noted"


def _lines(finding: EngineFinding) -> Iterator[str]:
    word = _word(finding)
    colour = wants_colour("auto", sys.stdout)
    label = paint(f"{word:<{_WIDTH}}", _COLOURS[word], on=colour)
    yield f"{label}  {finding.check}: {finding.found}"
    if not finding.is_well:
        yield f"{'':<{_WIDTH}}    -> {finding.advice}"


def _document(finding: EngineFinding) -> dict[str, object]:
    advice = {} if finding.is_well else {"advice": finding.advice}
    return {"check": finding.check, "result": _word(finding), "found": finding.found, **advice}
