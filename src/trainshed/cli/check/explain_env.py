"""``trainshed explain-env``: what one replica of a job would see, with Google's host names."""

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trainshed.cli.check.clusters import rulebook_of
from trainshed.cli.check.inspect_options import ROLES
from trainshed.cli.flags import Request
from trainshed.cli.job_flags import submit_flags_of
from trainshed.cli.local.run_job import host_of
from trainshed.cli.terminal import answer
from trainshed.launch.names import role_word
from trainshed.model.faults import UsageFault
from trainshed.model.job import Program, ProgramKind, ReplicaGroup
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.roles import Role
from trainshed.service.jobs.judging import accept, judge
from trainshed.service.starts.programs import Source
from trainshed.wire.detect import DocumentKind, kind_of
from trainshed.workbench.documents import read_one
from trainshed.workbench.local_run import LocalJob, prepare
from trainshed.workbench.merging import merge_any, with_args

#: Stands for a program that the file leaves to a flag; no variable shows it.
NO_PROGRAM = Program(kind=ProgramKind.PYTHON_PACKAGE, module="unnamed")
NO_ENTRY_POINT = ("unnamed",)


def run(request: Request) -> int:
    """Print the environment of one replica."""
    args, user_args = request
    job = _job(args, user_args)
    plan = prepare(job, host_of(args), for_print=True).plan
    env = replica_env(plan, _role(args.role, plan), args.index)
    text = "\n".join(f"{name}={_indent_json(value)}" for name, value in sorted(env.items()))
    answer(args.format, dict(env), text)
    return 0


def replica_env(plan: LaunchPlan, role: Role, index: int) -> Mapping[str, str]:
    """The environment of one replica.  Raises UsageFault with those that there are."""
    for replica in plan.replicas:
        if (replica.role, replica.index) == (role, index):
            return replica.env
    counts = Counter(replica.role for replica in plan.replicas)
    ranges = ", ".join(
        f"{role_word(group_role)} {_span(count)}" for group_role, count in counts.items()
    )
    raise UsageFault(f"This job has no {role_word(role)} {index}. There is: {ranges}")


def _span(count: int) -> str:
    return "0" if count == 1 else f"0 to {count - 1}"


def _role(word: str, plan: LaunchPlan) -> Role:
    """The role that a word means in this job: pool 2 has reducers or parameter servers."""
    has_reducers = any(replica.role is Role.REDUCER for replica in plan.replicas)
    return Role.REDUCER if word == "workerpool2" and has_reducers else ROLES[word]


def _indent_json(value: str) -> str:
    """JSON objects and lists indented; everything else as it is."""
    if not value.startswith(("{", "[")):
        return value
    try:
        return json.dumps(json.loads(value), indent=2)
    except ValueError:
        return value


def _job(args: argparse.Namespace, user_args: Sequence[str] | None) -> LocalJob:
    """The job of a file, judged as it would be when it runs; no program needs to be there."""
    content = read_one(args.config).content
    merged = merge_any(content, submit_flags_of(args), source=args.config)
    if kind_of(content) is DocumentKind.ML_JOB:
        merged = with_args(merged, user_args)
    accepted = accept(judge(merged, rulebook_of(args)))
    spec = accepted.spec
    return LocalJob(
        spec=replace(spec, groups=tuple(map(_add_program, spec.groups))),
        job_id=spec.job_id or "explained",
        source=Source(folder=Path.cwd()),
        folder=Path.cwd(),
        say=accepted.say,
        entry_point=NO_ENTRY_POINT,
    )


def _add_program(group: ReplicaGroup) -> ReplicaGroup:
    """A file whose module comes by flag is explained without it; packages need not exist."""
    if group.program is None and group.role is not Role.PRIMARY:
        return group  # ml v1: it runs the primary's
    program = group.program or NO_PROGRAM
    module = program.module or NO_PROGRAM.module
    return replace(group, program=replace(program, module=module, package_uris=()))
