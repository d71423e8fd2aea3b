"""The command line of apptainer, and of singularity, for one container.

Its processes are children of the replica's own, as the same user: limits, kills, host names and
the rest of what surrounds a process surround them too.
"""

from collections.abc import Iterator

from trainshed.engines.container_runtime import Runtime
from trainshed.engines.local.containers.box import Box, mount
from trainshed.model.launch_plan import ContainerPlan


def run_argv(runtime: Runtime, box: Box) -> tuple[str, ...]:
    """The words of ``run`` or ``exec``.

    ``--compat`` is what makes it like docker: nothing of the user's home and environment, a /tmp
    and a process namespace of its own, and a file system that may be written to.
    """
    return (
        runtime.program,
        "exec" if box.plan.command else "run",
        *("--compat", "--cleanenv"),
        *(("--nv",) if box.devices else ()),
        *("--home", box.home),
        *_binds(box),
        *started(box.plan),
    )


def started(plan: ContainerPlan) -> Iterator[str]:
    """Docker's table: ``exec`` knows no ENTRYPOINT, and ``run`` puts args in the place of CMD."""
    yield f"docker://{plan.image}"
    yield from plan.command or ()
    yield from plan.args or ()


def _binds(box: Box) -> Iterator[str]:
    for bind in box.binds:
        yield from ("--mount", mount(bind))
