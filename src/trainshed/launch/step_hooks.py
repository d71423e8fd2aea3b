"""Enables the hooks that measure the steps of a job, by its label or a variable."""

from collections.abc import Iterator, Sequence

from trainshed.launch.context import Context, Variables, program_of
from trainshed.model.job import JobSpec
from trainshed.model.labels import is_measured
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.roles import Role
from trainshed.model.trainer_contract import STEPS


def asks_for_hooks(spec: JobSpec, role: Role) -> bool:
    """Whether a label of the job, or a variable in the env of the role's program, requests hooks.

    A replica gets the folder of the hooks under the same condition (``interpreter_env``).
    """
    group = spec.group(role)
    program = program_of(spec, group) if group else None
    return is_measured(spec.labels) or (program is not None and STEPS in dict(program.env))


def variables(context: Context, role: Role, index: int) -> Variables:  # noqa: ARG001 - as all blocks
    """Return TRAINSHED_STEPS for a replica of a measured job, except a reducer."""
    if role is Role.REDUCER or not is_measured(context.spec.labels):
        return {}
    return {STEPS: "hooks"}


def notes_of(context: Context, replicas: Sequence[ReplicaPlan]) -> Iterator[str]:
    """Return the note that hooks cannot run in an image: they are files of the server."""
    is_measured_by_hooks = any(STEPS in replica.env for replica in replicas)
    if is_measured_by_hooks and Role.PRIMARY in context.site.in_containers:
        yield (
            "Hooks cannot measure the steps of a program in its own image; have it call "
            "trainshed_trainer.progress(step), which needs the trainer library in the image."
        )
