"""The entry point: finds the verb, imports its module, runs it, and turns faults into exit codes.

This module imports little, so that ``--help`` is fast.  Exit codes: 0 success, 1 a valid request
failed or ``validate`` refused a file, 2 the request is invalid, 130 Ctrl-C.  Commands that follow
a job end with the job's exit code.
"""

import io
import os
import sys
from collections.abc import Mapping, Sequence

from trainshed.cli.terminal import err, out
from trainshed.cli.verbs import ADVICE, GROUPS, Verb, find_verb, replace_alias

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

#: gcloud's release tracks; they are ignored.
_TRACKS = frozenset({"alpha", "beta"})
_HELP = frozenset({"-h", "--help", "help"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; never raise or print a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # for a terminal with another character set
    try:
        return run(words)
    except SystemExit as leaving:
        return int(leaving.code or 0)  # argparse has printed its help
    except KeyboardInterrupt:
        err("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # the program that reads our output has ended, as ``head`` does: this is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  # one line for any error, instead of a traceback
        from trainshed.cli.failures import report

        return report(error)


def run(words: list[str]) -> int:
    """Find the verb at the beginning of the words, and run it with the other words."""
    if words[:1] and words[0] in _TRACKS:
        words = words[1:]
    words = replace_alias(words)
    if words[:1] == ["--version"]:
        from trainshed import __version__

        out(f"trainshed {__version__}")
        return 0
    verb = find_verb(words)
    if verb and " ".join(words[:2]) not in ADVICE:
        return verb.run(words[len(verb.words) :])
    return print_overview(words)


def print_overview(words: list[str]) -> int:
    """Print the verbs that begin with the words; unknown words are a usage error."""
    typed = [word for word in words if word not in _HELP]
    groups = {
        heading: [verb for verb in verbs if verb.words[: len(typed)] == tuple(typed)]
        for heading, verbs in GROUPS.items()
    }
    if any(groups.values()):
        out(overview_text(groups))
        return 0 if typed != words or not words else EXIT_USAGE
    for command in (" ".join(typed[:2]), typed[0]):
        if command in ADVICE:
            err(f"error: there is no command {command!r}; {ADVICE[command]}")
            return EXIT_USAGE
    from trainshed.cli.failures import report_unknown_verb

    return report_unknown_verb(typed)


def overview_text(groups: Mapping[str, Sequence[Verb]]) -> str:
    """Return a line for each verb, below the heading of its group."""
    is_older_name = all(verb.hidden for verbs in groups.values() for verb in verbs)
    visible = {
        heading: [verb for verb in verbs if is_older_name or not verb.hidden]
        for heading, verbs in groups.items()
    }
    width = max((len(verb.text) for verbs in visible.values() for verb in verbs), default=0)
    sections = [
        "\n".join([f"{heading}:", *(f"  {verb.text:<{width}}  {verb.summary}" for verb in verbs)])
        for heading, verbs in visible.items()
        if verbs
    ]
    return "\n\n".join(
        [
            "Runs AI Platform and Vertex AI training jobs on machines you own.",
            *sections,
            "Each command has --help with an example: trainshed validate --help",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
