"""Prints failures: ``error:`` and one message, never a traceback."""

import difflib
import os
import traceback
from collections.abc import Iterable, Sequence
from typing import Final

from trainshed.cli.terminal import err
from trainshed.cli.verbs import ALIASES, VERBS
from trainshed.client.faults import ServerRefusal, Unreachable
from trainshed.model.faults import EngineFault, Fault, UsageFault, Violation
from trainshed.model.texts import install_command

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
        "pydantic",
        "sqlalchemy",
        "starlette",
        "uvicorn",
        "uvloop",
    }
)

#: The packages that draw a report.
REPORT_PACKAGES = frozenset({"optuna", "plotly"})

#: Words of commands that end or stop something; they are never proposed for a mistyped word.
_DESTRUCTIVE: Final = frozenset(
    {"cancel", "stop", "kill", "delete", "fence", "maintain", "drain", "restore"}
)
#: The least similarity at which a verb is proposed.
_LIKE_MIN: Final = 0.6

#: The violations that a server's message has; it counts the others.
_VIOLATIONS_IN_MESSAGE: Final = 3

#: A variable; any value prints the traceback of an unexpected error.
DEBUG = "TRAINSHED_DEBUG"


def report(error: Exception) -> int:
    """Print an error on stderr and return its exit code."""
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
        file = f"{error.filename}: " if error.filename else ""
        print_error(f"{file}{error.strerror}{_how_to_trace()}")
    else:
        print_error(f"unexpected {type(error).__name__}: {_one_line(error)}{_how_to_trace()}")
    if os.environ.get(DEBUG):
        err("".join(traceback.format_exception(error)).rstrip())
    return EXIT_FAILED


def _extra_of(error: ImportError) -> str | None:
    """Return the extra that installs a missing package; None for a package of no extra."""
    package = (error.name or "").partition(".")[0]
    if package in REPORT_PACKAGES:
        return "server,report"
    return "postgres" if package == "psycopg" else "server" if package in SERVER_PACKAGES else None


def print_refusal(refusal: ServerRefusal) -> None:
    """Print a server's refusal on stderr, with a line for each wrong field.

    A message that only lists the same fields is replaced, so that nothing is printed twice.
    """
    violations = list(refusal.violations)
    message = refusal.message
    first = violations[:_VIOLATIONS_IN_MESSAGE]
    if first and all(description.partition(";")[0] in message for _, description in first):
        message = "the request is refused; nothing was started"
    print_error(f"{refusal.status}: {message}")
    for field, description in violations:
        err(f"  {field}: {description}")


def print_error(message: str) -> None:
    """Print one error message on stderr."""
    err(f"error: {message}")


def print_violations(violations: Iterable[Violation]) -> None:
    """Print violations on stderr: the field, the fault and the accepted values."""
    for violation in violations:
        err(f"  {violation_text(violation)}")


def violation_text(violation: Violation) -> str:
    """Return ``field: message (accepted: ...)``."""
    accepted = f" (accepted: {violation.accepted})" if violation.accepted else ""
    return f"{violation.field}: {violation.message}{accepted}"


def report_unknown_verb(words: list[str]) -> int:
    """Print that the command does not exist, with the nearest one; return the exit code."""
    nearest = nearest_verb(words)
    hint = f"; did you mean: trainshed {nearest}?" if nearest else ";"
    end = " See" if nearest else " see"
    print_error(f"there is no command {' '.join(words)!r}{hint}{end} trainshed --help")
    return EXIT_USAGE


def nearest_verb(words: Sequence[str]) -> str | None:
    """Return the verb or alias most similar to the first words of a command line.

    None if that verb ends or stops something: then no verb is proposed.
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
    """Return the similarity from 0 to 1; words after the verb, such as a job's name, do not count.

    A verb's last word is its action: without a similar last word the similarity is 0.
    """
    own = name.split()
    typed = words[: len(own)]
    if _ratio(own[-1], typed[-1]) < _LIKE_MIN:
        return 0.0
    return _ratio(name, " ".join(typed))


def _ratio(word: str, other: str) -> float:
    return difflib.SequenceMatcher(None, word, other).ratio()


def _how_to_trace() -> str:
    return "" if os.environ.get(DEBUG) else f" (set {DEBUG}=1 for a traceback)"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or "no message"
