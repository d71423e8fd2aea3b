"""Describes the machine as a node of the fleet, and adapts plans to its limits and its GPUs."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.devices.inventory import DeviceStatus
from trainshed.model.gpus import GpuState, NodeGpu
from trainshed.model.launch_plan import NO_GPUS, LaunchPlan, ReplicaPlan
from trainshed.model.resources import FleetPolicy, Node

_GIB: Final = 1 << 30
_SLOTS_MIN: Final = 32
_SLOTS_PER_CORE: Final = 8

#: The accelerator type of both dialects for the driver's name of a device; the first match counts.
_ACCELERATORS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"\bK80\b", "NVIDIA_TESLA_K80"),
        (r"\bP4\b", "NVIDIA_TESLA_P4"),
        (r"\bP100\b", "NVIDIA_TESLA_P100"),
        (r"\bT4\b", "NVIDIA_TESLA_T4"),
        (r"\bV100\b", "NVIDIA_TESLA_V100"),
        (r"\bA100\b.*\b80GB", "NVIDIA_A100_80GB"),
        (r"\bA100\b", "NVIDIA_TESLA_A100"),
        (r"\bL4\b", "NVIDIA_L4"),
        (r"\bH100\b", "NVIDIA_H100_80GB"),
        (r"\bH200\b", "NVIDIA_H200_141GB"),
        (r"\bGB200\b", "NVIDIA_GB200"),
        (r"\bB200\b", "NVIDIA_B200"),
        (r"\bRTX PRO 6000\b", "NVIDIA_RTX_PRO_6000"),
    )
)


def node_of(  # noqa: PLR0913 - what was detected, and the settings
    name: str,
    status: DeviceStatus,
    *,
    policy: FleetPolicy | None,
    slots: int | None,
    gpu_alias: Mapping[str, str],
    isolation: str = "",
    leftovers: str = "",
    network: str = "",
) -> Node:
    """Return the machine as a node, with the processors and the memory that the server may use.

    Without ``policy``, a machine with GPUs is best effort, and a machine without GPUs emulates.
    Devices that no job may use now count as held.
    """
    devices = status.devices
    cores = len(os.sched_getaffinity(0))
    default = FleetPolicy.BEST_EFFORT if devices else FleetPolicy.EMULATE
    return Node(
        name=name,
        vcpus=cores,
        memory_gb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB,
        gpus=Counter(map(accelerator_of, devices)),
        gpus_held=Counter(accelerator_of(gpu) for gpu in devices if gpu.uuid in status.held),
        gpu_alias=gpu_alias,
        slots=slots or max(_SLOTS_MIN, _SLOTS_PER_CORE * cores),
        policy=policy or default,
        isolation=isolation,
        leftovers=leftovers,
        network=network,
        devices=tuple(node_gpu(device, status) for device in devices),
    )


def node_gpu(device: GpuDevice, status: DeviceStatus, attempt: str = "") -> NodeGpu:
    """Convert a device to a GPU of the node; ``attempt`` is its lease holder, or empty."""
    problem = status.faulty.get(device.uuid, "")
    stranger = "" if problem else status.held.get(device.uuid, "")
    state = GpuState.HELD if attempt else GpuState.FOREIGN if stranger else GpuState.FREE
    return NodeGpu(
        uuid=device.uuid,
        index=device.index,
        name=device.name,
        type=accelerator_of(device),
        memory_bytes=device.memory_bytes,
        pci_bus_id=device.pci_bus_id,
        state=GpuState.FAULTY if problem else state,
        who=attempt or stranger,
        problem=problem,
    )


def accelerator_of(device: GpuDevice) -> str:
    """Return the accelerator type of a device; else a name made from the driver's name.

    A part of a divided GPU (MIG) always counts as an unknown device.
    """
    is_part = bool(device.gpu_uuid)
    for pattern, name in () if is_part else _ACCELERATORS:
        if pattern.search(device.name):
            return name
    full_name = device.name if " MIG " in device.name or not is_part else f"{device.name} MIG"
    plain = re.sub(r"[^A-Za-z0-9]+", "_", full_name).strip("_").upper()
    return plain if plain.startswith("NVIDIA_") else f"NVIDIA_{plain}"


def bounded(plan: LaunchPlan, processes_max: int | None) -> LaunchPlan:
    """Return the plan with a limit on the processes and threads of each replica."""
    replicas = (replace(replica, processes_max=processes_max) for replica in plan.replicas)
    return replace(plan, replicas=tuple(replicas))


def emulated(plan: LaunchPlan) -> LaunchPlan:
    """Return the plan without GPUs, with a warning; its variables hide the machine's GPUs."""
    warnings = (*plan.warnings, *_list_gpu_warnings(plan.replicas))
    return replace(plan, replicas=tuple(map(_hide_gpus, plan.replicas)), warnings=warnings)


def _hide_gpus(replica: ReplicaPlan) -> ReplicaPlan:
    return replace(replica, gpu_count=0, gpu_type=None, env={**replica.env, **NO_GPUS})


def _list_gpu_warnings(replicas: Sequence[ReplicaPlan]) -> list[str]:
    """Return a warning for every role that asked for GPUs, in the order of the plan."""
    requests = {
        replica.role: f"{replica.gpu_count} {replica.gpu_type or 'GPU'}"
        for replica in replicas
        if replica.gpu_count
    }
    return [
        f"Each {role.value.replace('_', ' ')} replica asked for {what}; "
        "this machine emulates: it runs on the CPU, without GPUs."
        for role, what in requests.items()
    ]
