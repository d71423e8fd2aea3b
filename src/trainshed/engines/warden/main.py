"""Runs the archive as a launcher, as a warden, or as the preparer of a node's packages.

Launchers of a cluster with steps, and wardens, run below a reaper, which is forked before most
imports: it lives as long as the attempt.

warden.pyz attempt FOLDER [CLAIM]
warden.pyz next FOLDER
warden.pyz task --first N --rank-variable NAME [--dial-s SECONDS]
warden.pyz prepare
warden.pyz gpus FILE
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

from trainshed.engines.warden import below_reaper, loader_variables

_USAGE: Final = 2
#: Lengths of the arguments that run an attempt: the word, a folder, and perhaps a claim.
_ATTEMPT_LENGTHS: Final = (2, 3)
_NEXT_LENGTH: Final = 2
_GPUS_LENGTH: Final = 2
_STATUS_MAX: Final = 255
#: The umask of a launcher: only its user can read its files.
_PRIVATE: Final = 0o077


def main(argv: Sequence[str]) -> int:
    """Run the program that the first argument names; return its exit status."""
    loader_variables.show_variables(os.environ)
    if len(argv) in _ATTEMPT_LENGTHS and argv[0] == "attempt":
        return _run_attempt(*argv[1:])
    if len(argv) == _NEXT_LENGTH and argv[0] == "next":
        return _run_batch_step(argv[1])
    if argv and argv[0] == "task":
        return _run_task(argv[1:])
    if list(argv) == ["prepare"]:
        from trainshed.engines.warden import prepare  # noqa: PLC0415 - other programs need no packages

        return prepare.main()
    if len(argv) == _GPUS_LENGTH and argv[0] == "gpus":
        from trainshed.engines.warden import gpu_helper  # noqa: PLC0415 - other programs read no GPUs

        return gpu_helper.main(argv[1])
    program = argv[0] if argv else "none"
    return _refuse(
        f"the first argument must be attempt, next, task, prepare or gpus, got {program}"
    )


def _run_attempt(folder: str, claim: str | None = None) -> int:
    """Run the attempt of a folder as its launcher.

    ``claim``: create the claim of the attempt with this text first, and start nothing if the claim
    exists.  None: the batch script that has started this process has the claim.
    """
    if claim is None:
        below_reaper.fork_launcher()
        return _run_batch_step(folder)
    return _run_launcher(folder) if _claim(folder, claim) else 0


def _run_batch_step(folder: str) -> int:
    """Run the attempt of a folder as a batch step, whose exit status is that of the attempt."""
    _run_launcher(folder)
    return _read_status(folder)


def _run_launcher(folder: str) -> int:
    """Run the attempt of a folder, and the next attempt if the cluster's nodes are kept for it."""
    from trainshed.engines.supervise import main as supervisor  # noqa: PLC0415 - for a launcher
    from trainshed.engines.warden import own_replica  # noqa: PLC0415 - for a launcher

    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    status = supervisor.main(folder, own_replica.FUNCTIONS)
    from trainshed.engines.warden import hold  # noqa: PLC0415 - used after the attempt

    hold.run_next_attempt(folder)  # does not return if there is a next attempt
    return status


def _read_status(folder: str) -> int:
    """Return the exit status of an attempt from its recorded end; 0 if none is recorded.

    A cluster that keeps accounts, as Slurm does, counts the batch step by this status.
    """
    from trainshed.engines.supervise.record.folder import AttemptFolder  # noqa: PLC0415 - for a launcher
    from trainshed.engines.warden import hold  # noqa: PLC0415 - for a launcher

    try:
        ended = hold.read_end(AttemptFolder(folder))
    except OSError:
        return 0
    return min(ended.outcome.exit_code, _STATUS_MAX) if ended else 0


def _claim(folder: str, text: str) -> bool:
    """Create the claim of an attempt, and write all output to the attempt's folder from now on.

    Returns False if another launcher has the claim.  Raises OSError.
    """
    from trainshed.engines.supervise.record.folder import AttemptFolder  # noqa: PLC0415 - for a launcher
    from trainshed.engines.warden import hold  # noqa: PLC0415 - for a launcher

    os.umask(_PRIVATE)
    if not hold.create_claim(AttemptFolder(folder), text.encode()):
        sys.stderr.write(f"{folder} has a claim already: starting nothing\n")
        return False
    hold.write_output_to(AttemptFolder(folder))
    return True


def _run_task(arguments: Sequence[str]) -> int:
    options = dict(zip(arguments[::2], arguments[1::2]))
    try:
        first = int(options.get("--first", "0"))
        rank = int(os.environ[options["--rank-variable"]])
        dial_s = float(options["--dial-s"]) if "--dial-s" in options else None
    except (KeyError, ValueError) as error:
        return _refuse(
            "--first and the variable of --rank-variable must be whole numbers, and --dial-s must "
            f"be a number, got {error!r}"
        )
    process = below_reaper.fork_warden()
    from trainshed.engines.warden import warden  # noqa: PLC0415 - the reaper does not need it

    return warden.main(first + rank, process, dial_s)


def _refuse(message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return _USAGE
