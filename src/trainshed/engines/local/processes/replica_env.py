"""The exact command and environment of each replica: the plan, made concrete for this machine.

Pure: the launcher's own environment is an argument.  ``--dry-run`` prints the plan; this adds only
what the local engine knows, which is the interpreter, the packages' folder and the devices.
"""

import os
from collections.abc import Mapping, Sequence

from trainshed.engines.local.devices.gpus import Share
from trainshed.engines.local.environments.job_python import JobPython
from trainshed.engines.local.supervise.spawn import Program
from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role

#: Stands for the interpreter of the job's environment as the first word of a command.
PYTHON_WORD = "python"


def commands(
    plan: LaunchPlan,
    prepared: JobPython,
    shares: Sequence[Share],
    launcher_env: Mapping[str, str] = os.environ,
) -> tuple[Program, ...]:
    """One command a replica, in the order of the plan."""
    base = {name: text for name, text in launcher_env.items() if name not in plan.unset_env}
    return tuple(
        Program(
            argv=_argv(replica, prepared),
            env=_env(replica, prepared, base, share),
            cwd=plan.cwd or "",
        )
        for replica, share in zip(plan.replicas, shares, strict=True)
    )


def _argv(replica: ReplicaPlan, prepared: JobPython) -> tuple[str, ...]:
    first, *rest = replica.argv
    return (prepared.python if first == PYTHON_WORD else first, *rest)


def _env(
    replica: ReplicaPlan, prepared: JobPython, base: Mapping[str, str], share: Share
) -> dict[str, str]:
    """Later ones win: the launcher's, ours, the plan's; the devices are not the plan's to say."""
    env = {**base, "PYTHONUNBUFFERED": "1", **replica.env, **share.env}
    # a reducer is our own program, which the job's packages must not change
    entries = () if replica.role is Role.REDUCER else prepared.python_path_entries
    paths = [*entries, env.get("PYTHONPATH", "")]
    if python_path := os.pathsep.join(filter(None, paths)):
        env["PYTHONPATH"] = python_path
    return env
