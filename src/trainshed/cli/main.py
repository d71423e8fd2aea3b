"""The way in: finds the verb, imports its module, runs it, and turns faults into exit codes.

Nothing heavy is imported here, so that ``--help`` answers at once.  Exit codes: 0 done, 1 a valid
request that failed or a file that ``validate`` refuses, 2 a request that cannot be carried out as
written, 130 Ctrl-C; a job's own exit code is passed on.
"""

import io
import os
import sys
from collections.abc import Sequence

from trainshed.cli.terminal import err, out
from trainshed.cli.verbs import VERBS, Verb

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
        # whoever read our output has gone: nothing is wrong, and nobody is left to read
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  # the last line of defence: one line, not a trace
        from trainshed.cli.failures import report  # noqa: PLC0415  # only failures pay for it

        return report(error)


def run(words: list[str]) -> int:
    """Find the verb that the words begin with, and run it with the rest of them."""
    if words[:1] and words[0] in _TRACKS:
        words = words[1:]
    if words[:1] == ["--version"]:
        from trainshed import __version__  # noqa: PLC0415  # rarely asked for

        out(f"trainshed {__version__}")
        return 0
    for verb in VERBS:
        if tuple(words[: len(verb.words)]) == verb.words:
            return verb.run(words[len(verb.words) :])
    return overview(words)


def overview(words: list[str]) -> int:
    """List the verbs that begin with the words; an unknown word is a usage error."""
    asked = [word for word in words if word not in _HELP]
    found = [verb for verb in VERBS if verb.words[: len(asked)] == tuple(asked)]
    if not found:
        from trainshed.cli.failures import unknown_verb  # noqa: PLC0415  # only failures pay for it

        return unknown_verb(asked)
    out(listing(found))
    return 0 if asked != words or not words else EXIT_USAGE


def listing(found: Sequence[Verb]) -> str:
    """The verbs with a line each."""
    width = max(len(verb.text) for verb in found)
    lines = [f"  {verb.text:<{width}}  {verb.summary}" for verb in found if not verb.hidden]
    return "\n".join(
        [
            "Runs AI Platform and Vertex AI training jobs on machines you own.",
            "",
            *lines,
            "",
            "Each has --help with an example: trainshed validate --help",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
