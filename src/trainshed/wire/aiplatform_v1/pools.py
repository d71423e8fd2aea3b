"""Worker pools to replica groups: a pool's position is its role (R12)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trainshed.catalog.software import is_reduction_server
from trainshed.model.job import Accelerator, Disk, Program, ProgramKind, ReplicaGroup
from trainshed.model.roles import POOL_OF_ROLE, Role

POOLS_MAX: Final = 1 + max(POOL_OF_ROLE.values())

#: The role of each position; the third is the reducers' when it runs their image (R16).
ROLE_OF_POOL: Final = (Role.PRIMARY, Role.WORKER, Role.PARAMETER_SERVER, Role.EVALUATOR)

Json = Mapping[str, Any]


def groups_of(pools: Sequence[Json]) -> tuple[ReplicaGroup, ...]:
    """The groups of the pools that are not empty.  A pool without a count has one replica."""
    return tuple(_groups(pools))


def _groups(pools: Sequence[Json]) -> Iterator[ReplicaGroup]:
    for role, pool in zip(ROLE_OF_POOL, pools, strict=False):
        if pool:
            program, machine = program_of(pool), pool.get("machineSpec", {})
            yield ReplicaGroup(
                role=_role(role, program),
                count=int(pool.get("replicaCount", 1)),
                machine_type=machine.get("machineType"),
                accelerator=_accelerator(machine),
                tpu_topology=machine.get("tpuTopology"),
                disk=_disk(pool.get("diskSpec")),
                program=program,
            )


def _role(role: Role, program: Program | None) -> Role:
    is_container = program is not None and program.kind is ProgramKind.CONTAINER
    image = program.image_uri if program and is_container else None
    if role is Role.PARAMETER_SERVER and image and is_reduction_server(image):
        return Role.REDUCER
    return role


def _accelerator(machine: Json) -> Accelerator | None:
    kind, count = machine.get("acceleratorType"), machine.get("acceleratorCount")
    return None if kind is None and count is None else Accelerator(type=kind, count=count)


def _disk(value: Json | None) -> Disk | None:
    if not value:
        return None
    return Disk(type=value.get("bootDiskType"), size_gb=value.get("bootDiskSizeGb"))


def program_of(pool: Json) -> Program | None:
    """The program of a pool; None when it has neither kind."""
    if "containerSpec" in pool:
        return _container(pool["containerSpec"])
    if "pythonPackageSpec" in pool:
        return _python_package(pool["pythonPackageSpec"])
    return None


def _container(value: Json) -> Program:
    return Program(
        kind=ProgramKind.CONTAINER,
        image_uri=value.get("imageUri"),
        command=tuple(value.get("command", ())),
        args=tuple(value.get("args", ())),
        env=_env(value),
    )


def _python_package(value: Json) -> Program:
    return Program(
        kind=ProgramKind.PYTHON_PACKAGE,
        image_uri=value.get("executorImageUri"),
        package_uris=tuple(value.get("packageUris", ())),
        module=value.get("pythonModule"),
        args=tuple(value.get("args", ())),
        env=_env(value),
    )


def _env(value: Json) -> tuple[tuple[str, str], ...]:
    return tuple((each.get("name", ""), each.get("value", "")) for each in value.get("env", ()))
