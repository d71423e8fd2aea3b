"""``trainshed doctor --engine NAME``: what a small task finds on the nodes of an engine."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Final

from trainshed.cli.terminal import answer, out, painted, wants_colour
from trainshed.config import Settings
from trainshed.config.engine import engines_of
from trainshed.engines.base import Engine, EngineFinding
from trainshed.model.faults import EngineFault, UsageFault

_UNWELL: Final = 1
_UNSEEN: Final = 2
_COLOURS: Final = {"ok": "\x1b[32m", "FAILED": "\x1b[1;31m", "unseen": "\x1b[1;33m"}
_WIDTH: Final = max(map(len, _COLOURS))


def run(args: Namespace, settings: Settings) -> int:
    """Probe and tell; the exit code.  Raises UsageFault for an engine that has nothing to probe."""
    found: list[EngineFinding] = []
    shows = args.format != "json"
    with suppress(KeyboardInterrupt), closing(_engine(args.engine, settings)) as engine:
        for each in _probed(engine):
            found.append(each)
            if shows:
                out("\n".join(_lines(each)))
                sys.stdout.flush()
    words = {_word(each) for each in found}
    if not shows:
        answer(args, {"engine": args.engine, "checks": [_document(each) for each in found]}, "")
    if "unseen" in words:
        return _UNSEEN
    return _UNWELL if "FAILED" in words else 0


def _engine(name: str, settings: Settings) -> Engine:
    engines = engines_of(settings)
    found = engines.get(name) if name in engines.served else None
    if found is not None:
        return found
    if why := engines.failed.get(name):
        raise UsageFault(f"--engine is {name!r}, which cannot be made: {why.message}")
    accepted = ", ".join(sorted(engines.served))
    raise UsageFault(f"--engine is {name!r}; accepted: {accepted}")


def _probed(engine: Engine) -> Iterator[EngineFinding]:
    if engine.traits.probe is None:
        raise UsageFault(
            f"the engine {engine.name} runs on this machine: trainshed doctor alone looks at it"
        )
    try:
        yield from engine.traits.probe()
    except (EngineFault, OSError) as fault:
        advice = "the commands of the cluster are tried by hand as the server's user: sinfo, squeue"
        yield EngineFinding("answer", is_well=False, found=str(fault), advice=advice)


def _word(found: EngineFinding) -> str:
    if found.check == "answer":
        return "unseen"
    return "ok" if found.is_well else "FAILED"


def _lines(found: EngineFinding) -> Iterator[str]:
    word = _word(found)
    colour = wants_colour("auto", sys.stdout)
    yield f"{painted(f'{word:<{_WIDTH}}', _COLOURS[word], on=colour)}  {found.check}: {found.found}"
    if not found.is_well:
        yield f"{'':<{_WIDTH}}    -> {found.advice}"


def _document(found: EngineFinding) -> dict[str, object]:
    advice = {} if found.is_well else {"advice": found.advice}
    return {"check": found.check, "result": _word(found), "found": found.found, **advice}
