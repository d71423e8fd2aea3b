"""The way in: finds the verb, imports its module, runs it, and turns faults into exit codes.

Nothing heavy is imported here, so that ``--help`` answers at once.  Exit codes: 0 done, 1 a valid
request that failed or a file that ``validate`` refuses, 2 a request that cannot be carried out as
written, 130 Ctrl-C; a job's own exit code is passed on.
"""

import io
import os
import sys
from collections.abc import Mapping, Sequence

from trainshed.cli.terminal import err, out
from trainshed.cli.verbs import ADVICE, GROUPS, Verb, verb_of, without_alias

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

#: gcloud's release tracks: the same commands here, as far as they exist.
_TRACKS = frozenset({"alpha", "beta"})
_HELP = frozenset({"-h", "--help", "help"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and give its exit code; never raises, never shows a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that has no such letter
    try:
        return run(words)
    except SystemExit as leaving:
        return int(leaving.code or 0)  # argparse has printed its help
    except KeyboardInterrupt:
        err("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # the reader of our output has ended: nothing is wrong, and there is nothing to print to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  # the last line of defence: one line, not a trace
        from trainshed.cli.failures import report

        return report(error)


def run(words: list[str]) -> int:
    """Find the verb that the words begin with, and run it with the rest of them."""
    if words[:1] and words[0] in _TRACKS:
        words = words[1:]
    words = without_alias(words)
    if words[:1] == ["--version"]:
        from trainshed import __version__

        out(f"trainshed {__version__}")
        return 0
    if verb := verb_of(words):
        return verb.run(words[len(verb.words) :])
    return overview(words)


def overview(words: list[str]) -> int:
    """List the verbs that begin with the words; an unknown word is a usage error."""
    typed = [word for word in words if word not in _HELP]
    groups = {
        heading: [verb for verb in verbs if verb.words[: len(typed)] == tuple(typed)]
        for heading, verbs in GROUPS.items()
    }
    if any(groups.values()):
        out(listing(groups))
        return 0 if typed != words or not words else EXIT_USAGE
    if advice := ADVICE.get(" ".join(typed[:2]), ADVICE.get(typed[0])):
        err(f"error: there is no command {typed[0]!r}; {advice}")
        return EXIT_USAGE
    from trainshed.cli.failures import unknown_verb

    return unknown_verb(typed)


def listing(groups: Mapping[str, Sequence[Verb]]) -> str:
    """The verbs with a line each, below the heading of their group."""
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
            "Each has --help with an example: trainshed validate --help",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
