"""Makes the engine of a Slurm cluster from its table in the configuration."""

import os
import re
import shutil
from collections.abc import Mapping
from typing import Final

from trainshed.engines.base import EngineContext
from trainshed.engines.slurm import options
from trainshed.engines.slurm.commands import Commands, Run, run_program
from trainshed.engines.slurm.engine import SlurmEngine
from trainshed.engines.slurm.queue import Queue
from trainshed.model.faults import UsageFault

#: Accepted names of installations, which are part of the names of jobs and folders.
_INSTALLATION: Final = re.compile(r"[a-z0-9]{1,32}")


def make(
    context: EngineContext, *, environ: Mapping[str, str] = os.environ, run: Run = run_program
) -> SlurmEngine:
    """Make the engine of a table.  Raises UsageFault for a setting, not for an absent cluster."""
    settings = options.read({"usage_s": context.usage_s, **context.options})
    if not _INSTALLATION.fullmatch(context.installation):
        raise UsageFault(
            "the installation of a Slurm engine must be 1 to 32 characters of a-z and 0-9, "
            f"got {context.installation!r}"
        )
    if absent := [name for name in settings.env if name not in environ]:
        raise UsageFault(
            f"a Slurm engine's `env` names {absent[0]}, which the server's environment lacks; set "
            "the variable before the start of the server, or remove it from `env`"
        )
    folder = context.jobs_dir.parent / "engines" / (context.name or "slurm")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    commands = Commands(
        folder=settings.commands or _find_commands(settings, environ),
        ssh=settings.ssh,
        control=str(folder / "ssh"),
        cluster=settings.clusters,
        passed=settings.env,
        token_file=settings.token_file,
        environ=environ,
        run=run,
    )
    return SlurmEngine(
        settings,
        Queue(commands, context.installation),
        name=context.name or "slurm",
        installation=context.installation,
        buckets=settings.buckets or str(context.buckets),
        locks=str(folder / "locks"),
    )


def _find_commands(settings: options.SlurmOptions, environ: Mapping[str, str]) -> str:
    """Return the folder of the server's PATH that has sbatch; "": none has, or ssh runs it."""
    program = None if settings.ssh else shutil.which("sbatch", path=environ.get("PATH", ""))
    return os.path.dirname(os.path.abspath(program)) if program else ""
