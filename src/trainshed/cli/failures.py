"""Failures as a person reads them: ``error:`` and one clear message, never a traceback."""

import difflib
import os
import traceback
from collections.abc import Iterable, Sequence
from typing import Final

from trainshed.cli.terminal import err
from trainshed.cli.verbs import ALIASES, VERBS
from trainshed.client.faults import ServerRefusal, Unreachable
from trainshed.model.extras import install_command
from trainshed.model.faults import EngineFault, Fault, UsageFault, Violation

EXIT_FAILED = 1
EXIT_USAGE = 2

#: The packages that only the service needs, by the names under which they are imported.
SERVER_PACKAGES = frozenset(
    {
        "alembic",
        "cryptography",
        "fastapi",
        "google_crc32c",
        "grpc",
        "httptools",
        "jwt",
        "prometheus_client",
        "pydantic",
        "sqlalchemy",
        "starlette",
        "uvicorn",
        "uvloop",
    }
)

#: The packages that a report draws with; one of them comes with the service.
REPORT_PACKAGES = frozenset({"optuna", "plotly"})

#: Words of commands that end or stop something: never proposed for a word that was mistyped.
_DESTRUCTIVE: Final = frozenset(
    {"cancel", "stop", "kill", "delete", "fence", "maintain", "drain", "restore"}
)
#: How like a verb a typed text must be to be taken for it.
_LIKE_MIN: Final = 0.6

#: Set to anything to see where an unexpected error came from.
DEBUG = "TRAINSHED_DEBUG"


def report(error: Exception) -> int:
    """Print an error on stderr and give its exit code."""
    if isinstance(error, Fault):
        print_error("the job is refused; nothing was started")
        print_violations(error.violations)
        return EXIT_USAGE
    if isinstance(error, UsageFault):
        print_error(str(error))
        return EXIT_USAGE
    if isinstance(error, ServerRefusal):
        print_refusal(error)
        return EXIT_FAILED
    if isinstance(error, EngineFault | Unreachable):
        print_error(str(error))
        return EXIT_FAILED
    if isinstance(error, ImportError) and (extra := _extra_of(error)):
        print_error(f"{error.name} is not installed; {install_command(extra)}")
        return EXIT_FAILED
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        print_error(f"{place}{error.strerror}{_how_to_trace()}")
    else:
        print_error(f"unexpected {type(error).__name__}: {_one_line(error)}{_how_to_trace()}")
    if os.environ.get(DEBUG):
        err("".join(traceback.format_exception(error)).rstrip())
    return EXIT_FAILED


def _extra_of(error: ImportError) -> str | None:
    """What would bring a package that is missing; None for one that nothing of ours asks for."""
    package = (error.name or "").partition(".")[0]
    if package in REPORT_PACKAGES:
        return "server,report"
    return "postgres" if package == "psycopg" else "server" if package in SERVER_PACKAGES else None


def print_refusal(refusal: ServerRefusal) -> None:
    """Write a server's refusal on stderr, each field at fault on a line of its own.

    A message that is nothing but the list of them is not said twice.
    """
    violations = list(refusal.violations)
    message = refusal.message
    if violations and all(
        description.partition(";")[0] in message for _, description in violations
    ):
        message = "the request is refused; nothing was started"
    print_error(f"{refusal.status}: {message}")
    for field, description in violations:
        err(f"  {field}: {description}")


def print_error(message: str) -> None:
    """Write one error message on stderr."""
    err(f"error: {message}")


def print_violations(violations: Iterable[Violation]) -> None:
    """Write each violation on stderr: the field, what is wrong, what is accepted."""
    for violation in violations:
        err(f"  {in_a_line(violation)}")


def in_a_line(violation: Violation) -> str:
    """``field: message [accepted: ...]``."""
    accepted = f" (accepted: {violation.accepted})" if violation.accepted else ""
    return f"{violation.field}: {violation.message}{accepted}"


def unknown_verb(words: list[str]) -> int:
    """Say that there is no such verb, with the nearest one."""
    nearest = nearest_verb(words)
    hint = f"; did you mean: trainshed {nearest}?" if nearest else ";"
    end = " See" if nearest else " see"
    print_error(f"there is no command {' '.join(words)!r}{hint}{end} trainshed --help")
    return EXIT_USAGE


def nearest_verb(words: Sequence[str]) -> str | None:
    """The verb or alias whose words are most like the first words of a command line.

    None where that is a command that ends something: it is not proposed, nor is the next one.
    """
    match = _nearest_name([*(verb.text for verb in VERBS if not verb.hidden), *ALIASES], words)
    return None if match and _DESTRUCTIVE & set(match.split()) else match


def _nearest_name(names: Sequence[str], words: Sequence[str]) -> str | None:
    for count in range(len(words), 0, -1):
        ending = f" {' '.join(words[:count])}"  # "stream-logs" ends verbs of several groups
        if match := next((name for name in names if name.endswith(ending)), None):
            return match
    likeness = {name: _likeness(name, words) for name in names}
    name = max(names, key=lambda name: likeness[name])
    return name if likeness[name] >= _LIKE_MIN else None


def _likeness(name: str, words: Sequence[str]) -> float:
    """From 0 to 1; words behind the verb, such as a job's name, do not count.

    The verb's last word says what it does: a verb whose last word is unlike is not meant.
    """
    own = name.split()
    typed = words[: len(own)]
    if _ratio(own[-1], typed[-1]) < _LIKE_MIN:
        return 0.0
    return _ratio(name, " ".join(typed))


def _ratio(word: str, other: str) -> float:
    return difflib.SequenceMatcher(None, word, other).ratio()


def _how_to_trace() -> str:
    return "" if os.environ.get(DEBUG) else f" ({DEBUG}=1 shows where)"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or "no message"
