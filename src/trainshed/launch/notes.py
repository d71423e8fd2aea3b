"""What a job asked for and will not get here, a sentence each.

A field that is not honoured is named, never silently swallowed.
"""

from collections.abc import Iterator, Mapping

from trainshed.launch import reduction_env
from trainshed.launch.context import Variables, program_of
from trainshed.launch.devices import missing_devices
from trainshed.launch.user_env import is_kept_by_service
from trainshed.model.job import JobSpec, Program
from trainshed.model.roles import Role


def notes_of(spec: JobSpec, service_env: Mapping[Role, Variables]) -> tuple[str, ...]:
    """Collect the notes of a plan.

    ``service_env`` holds what the service has set on one replica of each role.
    """
    found: list[str] = []
    for group in spec.groups:
        program = program_of(spec, group)
        found.extend(missing_devices(group))
        if group.role is not Role.REDUCER:
            found.extend(_reserved(program, service_env[group.role]))
    found.extend(reduction_env.notes_of(spec))
    return tuple(dict.fromkeys(found))


def _reserved(program: Program | None, service: Variables) -> Iterator[str]:
    for name, _ in program.env if program else ():
        if is_kept_by_service(name, service):
            yield f"{name} in the job's env is ignored: the service sets it."
