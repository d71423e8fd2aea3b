"""``trainshed explain-env``: prints the environment that one replica of a job has at Google."""

import argparse
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.cli import flags
from trainshed.cli.check.clusters import rulebook_of
from trainshed.cli.job_flags import add_cluster_flags, submit_flags_of
from trainshed.cli.terminal import print_result
from trainshed.model.faults import UsageFault
from trainshed.model.job import Program, ProgramKind, ReplicaGroup
from trainshed.model.roles import Role
from trainshed.storage.buckets import GsPaths

if TYPE_CHECKING:
    from trainshed.model.launch_plan import LaunchPlan
    from trainshed.service.jobs.judging import Rulebook
    from trainshed.workbench.local_run import LocalJob

#: The program if neither the file nor a flag names one; no variable contains it.
NO_PROGRAM = Program(kind=ProgramKind.PYTHON_PACKAGE, module="unnamed")
NO_ENTRY_POINT = ("unnamed",)

EXAMPLE = """\
  trainshed explain-env --config config.yaml --module-name trainer.task --role worker --index 1
  trainshed explain-env --config job.yaml --role primary --format json"""

#: The words for roles in both dialects; pool 2 has parameter servers or reducers.
ROLES: Mapping[str, Role] = {
    "primary": Role.PRIMARY,
    "master": Role.PRIMARY,
    "chief": Role.PRIMARY,
    "workerpool0": Role.PRIMARY,
    "worker": Role.WORKER,
    "workerpool1": Role.WORKER,
    "parameter-server": Role.PARAMETER_SERVER,
    "parameter_server": Role.PARAMETER_SERVER,
    "ps": Role.PARAMETER_SERVER,
    "workerpool2": Role.PARAMETER_SERVER,
    "reducer": Role.REDUCER,
    "evaluator": Role.EVALUATOR,
    "workerpool3": Role.EVALUATOR,
}


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Prints the environment variables that one replica of a job has at Google, as "
        "KEY=value; JSON values are indented. With TRACEPARENT if the server here sends traces.",
        example=EXAMPLE,
    )
    parser.own_flags = ()
    add = flags.adder(parser)
    add("--config FILE", "Job file, either dialect", required=True)
    add("--role ROLE", ", ".join(dict.fromkeys(ROLES)), choices=tuple(ROLES), default="primary")
    add("--index N", "Index of the replica in its role", type=int, default=0)
    flags.add_format(parser)
    add_cluster_flags(parser, "they override the file")
    flags.add_run_flags(parser, dry_run=False)
    parser.set_defaults(gs_paths=GsPaths.URI.value)
    flags.add_catalog_flags(parser)
    flags.add_gcloud_wide(parser)
    return parser


def run(request: flags.Request) -> int:
    """Print the environment of one replica."""
    from trainshed.cli.local.run_job import host_of
    from trainshed.workbench.local_run import prepare

    args, user_args = request
    job = _job(args.config, submit_flags_of(args), user_args, rulebook_of(args))
    plan = prepare(job, host_of(args), for_print=True).plan
    role = _role(args.role, plan)
    env = {**_trace_variables(args, role), **replica_env(plan, role, args.index)}
    text = "\n".join(f"{name}={_indent_json(value)}" for name, value in sorted(env.items()))
    print_result(args.format, dict(env), text)
    return 0


def _trace_variables(args: argparse.Namespace, role: Role) -> Mapping[str, str]:
    """Return the span of an attempt, with ids of an example, if the server here sends traces."""
    from trainshed.config import load_settings
    from trainshed.launch.variables import TRACEPARENT
    from trainshed.observability.spans import attempt_parent

    otel = load_settings(None, os.environ, {"data_dir": args.data_dir}).otel
    if role is Role.REDUCER or not (otel.endpoint and otel.to_replicas):
        return {}
    return {TRACEPARENT: attempt_parent(installation=0, uid=1, attempt=1).text}


def replica_env(plan: "LaunchPlan", role: Role, index: int) -> Mapping[str, str]:
    """Return the environment of one replica.  Raises UsageFault if the job has no such replica."""
    from trainshed.launch.names import role_word

    for replica in plan.replicas:
        if (replica.role, replica.index) == (role, index):
            return replica.env
    counts = Counter(replica.role for replica in plan.replicas)
    ranges = ", ".join(
        f"{role_word(group_role)} {_span(count)}" for group_role, count in counts.items()
    )
    raise UsageFault(f"the job has no {role_word(role)} {index} (accepted: {ranges})")


def _span(count: int) -> str:
    return "0" if count == 1 else f"0 to {count - 1}"


def _role(word: str, plan: "LaunchPlan") -> Role:
    """Return the role of a word in this job: pool 2 has reducers or parameter servers."""
    has_reducers = any(replica.role is Role.REDUCER for replica in plan.replicas)
    return Role.REDUCER if word == "workerpool2" and has_reducers else ROLES[word]


def _indent_json(value: str) -> str:
    """Indent JSON objects and lists; return other values unchanged."""
    if not value.startswith(("{", "[")):
        return value
    try:
        return json.dumps(json.loads(value), indent=2)
    except ValueError:
        return value


def _job(
    file: str,
    submit_flags: Mapping[str, str],
    user_args: Sequence[str] | None,
    rulebook: "Rulebook",
) -> "LocalJob":
    """Return the job of a file, checked as for a run; its program need not exist."""
    from trainshed.service.jobs.judging import accept, judge
    from trainshed.service.jobs.merging import merge_any, with_args
    from trainshed.service.starts.programs import Source
    from trainshed.wire.detect import DocumentKind, kind_of
    from trainshed.workbench.documents import read_one
    from trainshed.workbench.local_run import LocalJob

    content = read_one(file).content
    merged = merge_any(content, submit_flags, source=file)
    if kind_of(content) is DocumentKind.ML_JOB:
        merged = with_args(merged, user_args)
    accepted = accept(judge(merged, rulebook))
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
    """Replace a missing module, and leave out packages, which need not exist."""
    if group.program is None and group.role is not Role.PRIMARY:
        return group  # ml v1: the replica runs the program of the primary
    program = group.program or NO_PROGRAM
    module = program.module or NO_PROGRAM.module
    return replace(group, program=replace(program, module=module, package_uris=()))
