"""The variables of a job with a Reduction Server, and how its reducers are started.

Primary, workers and reducers get the address of every reducer process.  The secret of the job and
the file for the achieved rates belong to one attempt: the code that starts the attempt adds their
paths, so that no printed or stored plan contains a secret.

A reducer runs Trainshed's program, so its container's command and args are not used; the
container's env may change settings of the program (``SETTINGS``).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from trainshed.launch.context import Context, Variables
from trainshed.model import trainer_contract
from trainshed.model.job import JobSpec, Program
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.roles import Role

#: The roles that take part in a reduction; evaluators do not.
TAKES_PART: Final = frozenset({Role.PRIMARY, Role.WORKER, Role.REDUCER})

#: The program of a reducer, by the name of its console script.
PROGRAM: Final = "trainshed-reducer"
#: A reducer ends with its job, so it waits without a limit while workers load data.
_ARGV: Final = (PROGRAM, "--idle-timeout", "0")

PROCS: Final = "TRAINSHED_REDUCER_PROCS"


class ReducerSetting(NamedTuple):
    """The option for a variable of the reducers' container, and its accepted values."""

    flag: str
    pattern: str
    accepted: str


#: Variables in the env of the third pool's container that set a reducer's options.  A reducer has
#: one process by default: its threads sum on several cores, and on a machine with workers more
#: processes would take the workers' cores.
SETTINGS: Final[Mapping[str, ReducerSetting]] = {
    PROCS: ReducerSetting("--procs", r"[1-9]|[12][0-9]|3[0-2]", "1 to 32"),
    "TRAINSHED_REDUCER_MAX_MEMORY": ReducerSetting(
        "--max-memory", r"[1-9][0-9]{0,17}[KMGT]?", "bytes, or a number with K, M, G or T"
    ),
    "TRAINSHED_REDUCER_TIMEOUT": ReducerSetting("--timeout", r"[1-9][0-9]{0,5}", "seconds"),
}


def variables(context: Context, role: Role, _index: int) -> Variables:
    """Return TRAINSHED_REDUCERS for a replica that takes part, if the job has reducers."""
    if role not in TAKES_PART or context.spec.group(Role.REDUCER) is None:
        return {}
    return {trainer_contract.REDUCERS: ",".join(addresses(context))}


def addresses(context: Context) -> Iterator[str]:
    """Yield ``host:port`` of every process; those of one reducer have consecutive ports."""
    procs = procs_of(context.spec)
    group = context.spec.group(Role.REDUCER)
    for index in range(group.count if group else 0):
        first = context.site.addresses[Role.REDUCER, index]
        yield from (replace(first, port=first.port + proc).text for proc in range(procs))


def procs_of(spec: JobSpec) -> int:
    """Return the number of processes of each reducer; each needs its own port."""
    group = spec.group(Role.REDUCER)
    return int(_settings(group.program if group else None).get(PROCS, "1"))


def argv_of(program: Program | None) -> tuple[str, ...]:
    """Return the command line of a reducer, without secrets and addresses."""
    settings = _settings(program).items()
    return (*_ARGV, *(word for name, value in settings for word in (SETTINGS[name].flag, value)))


def notes_of(spec: JobSpec) -> Iterator[str]:
    """Return notes on unused parts of the reducers' container, and how workers use reducers."""
    group = spec.group(Role.REDUCER)
    if group is None:
        return
    yield from _unused_notes(group.program)
    if not any(_chooses_reducers(spec, role) for role in (Role.PRIMARY, Role.WORKER)):
        yield (
            f"The reducers serve workers that choose them: with {trainer_contract.TORCH_BACKEND}="
            'reduction in the env of their container, or with the torch backend "reduction".'
        )


def with_token_file(plan: LaunchPlan, path: str) -> LaunchPlan:
    """Add the path of the attempt's secret to the variables of the replicas that take part."""
    added = {trainer_contract.REDUCTION_TOKEN_FILE: path}
    replicas = tuple(
        replace(replica, env={**replica.env, **added}) if replica.role in TAKES_PART else replica
        for replica in plan.replicas
    )
    return replace(plan, replicas=replicas)


def has_reducers(spec: JobSpec) -> bool:
    """Whether a job has reducers, which need a secret for each attempt."""
    group = spec.group(Role.REDUCER)
    return group is not None and group.count > 0


def _settings(program: Program | None) -> dict[str, str]:
    """Return the valid settings of a reducer; the last one of a name counts."""
    env = program.env if program else ()
    return {
        name: value
        for name, value in env
        if name in SETTINGS and re.fullmatch(SETTINGS[name].pattern, value)
    }


def _unused_notes(program: Program | None) -> Iterator[str]:
    if program is None:
        return
    has_other_variables = any(name not in SETTINGS for name, _ in program.env)
    if program.command or program.args or has_other_variables:
        yield (
            f"The reducers run {PROGRAM}: of the command, args and env of their container only "
            f"{', '.join(SETTINGS)} are used."
        )
    settings = _settings(program)
    for name, value in program.env:
        if name in SETTINGS and name not in settings:
            yield f"{name}={value} is ignored: it must be {SETTINGS[name].accepted}."


def _chooses_reducers(spec: JobSpec, role: Role) -> bool:
    group = spec.group(role)
    env = group.program.env if group and group.program else ()
    return trainer_contract.TORCH_BACKEND in dict(env)
