"""The job whose environment is explained: either dialect, and no program needs to be there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trainshed.model.job import JobSpec, Program, ProgramKind, ReplicaGroup
from trainshed.model.roles import Role
from trainshed.service.judging import Rulebook, accept, judge
from trainshed.service.local_run import LocalJob
from trainshed.service.programs import Source
from trainshed.wire.detect import DocumentKind, kind_of
from trainshed.workbench.documents import read_one
from trainshed.workbench.merging import merge_any, with_args

#: Stands for a program that the file leaves to a flag; no variable shows it.
NO_PROGRAM = Program(kind=ProgramKind.PYTHON_PACKAGE, module="unnamed")
NO_ENTRY_POINT = ("unnamed",)


def explained_job(
    config: str,
    flags: Mapping[str, str],
    user_args: Sequence[str] | None,
    rulebook: Rulebook,
    *,
    folder: Path,
) -> LocalJob:
    """The job of a file, judged as it would be when it runs.  Raises Fault and UsageFault."""
    content = read_one(config).content
    merged = merge_any(content, flags, source=config)
    if kind_of(content) is DocumentKind.ML_JOB:
        merged = with_args(merged, user_args)
    accepted = accept(judge(merged, rulebook))
    spec = _with_programs(accepted.spec)
    return LocalJob(
        spec=spec,
        job_id=spec.job_id or "explained",
        source=Source(folder=folder),
        folder=folder,
        say=accepted.say,
        entry_point=NO_ENTRY_POINT,
    )


def _with_programs(spec: JobSpec) -> JobSpec:
    """A file whose module comes by flag is explained without it; packages need not exist."""
    return replace(spec, groups=tuple(map(_with_program, spec.groups)))


def _with_program(group: ReplicaGroup) -> ReplicaGroup:
    if group.program is None and group.role is not Role.PRIMARY:
        return group  # ml v1: it runs the primary's
    program = group.program or NO_PROGRAM
    module = program.module or NO_PROGRAM.module
    return replace(group, program=replace(program, module=module, package_uris=()))
