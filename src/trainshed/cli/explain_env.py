"""``trainshed explain-env``: what one replica of a job would see, with Google's host names."""

import json
from pathlib import Path

from trainshed.cli.clusters import rulebook_of
from trainshed.cli.flags import Request
from trainshed.cli.hosts import host_of
from trainshed.cli.inspect_options import ROLES
from trainshed.cli.submit_options import given_flags
from trainshed.cli.terminal import out, out_json
from trainshed.launch.explain import replica_env
from trainshed.model.faults import Fault, UsageFault
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.roles import Role
from trainshed.service.local_run import prepare
from trainshed.workbench.explain_env import explained_job


def run(request: Request) -> int:
    """Print the environment of one replica."""
    args, user_args = request
    job = explained_job(
        args.config,
        given_flags(args),
        user_args,
        rulebook_of(args),
        folder=Path.cwd(),
    )
    plan = prepare(job, host_of(args), for_print=True).plan
    try:
        env = replica_env(plan, _role(args.role, plan), args.index)
    except Fault as fault:
        violation = fault.violations[0]
        raise UsageFault(f"{violation.message} There is: {violation.accepted}") from fault
    if args.format == "json":
        out_json(dict(env))
    else:
        for name, value in sorted(env.items()):
            out(f"{name}={_readable(value)}")
    return 0


def _role(word: str, plan: LaunchPlan) -> Role:
    """The role that a word means in this job: pool 2 has reducers or parameter servers (R12)."""
    has_reducers = any(replica.role is Role.REDUCER for replica in plan.replicas)
    return Role.REDUCER if word == "workerpool2" and has_reducers else ROLES[word]


def _readable(value: str) -> str:
    """JSON objects and lists indented; everything else as it is."""
    if not value.startswith(("{", "[")):
        return value
    try:
        return json.dumps(json.loads(value), indent=2)
    except ValueError:
        return value
