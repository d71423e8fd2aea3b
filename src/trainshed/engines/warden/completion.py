"""Completes the command and the environment of a replica with what only its node knows."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from trainshed.engines.processes.variables import select_for_programs
from trainshed.engines.supervise.commands import compose_command
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import OWN_CONTAINER, ReplicaSpec
from trainshed.engines.warden import program_files
from trainshed.engines.warden.launcher_variables import LAUNCHER
from trainshed.model import trainer_contract
from trainshed.model.python_word import PYTHON_WORD

#: Variables that name the devices of a program; values of the cluster override values of the plan.
_DEVICES: Final = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                   "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK")  # fmt: skip


class NodePython(NamedTuple):
    """The interpreter of a job on a node, and the folders with its packages."""

    python: str = PYTHON_WORD
    path_entries: tuple[str, ...] = ()


def complete_replica(
    replica: ReplicaSpec,
    task: Mapping[str, Any],
    node: Mapping[str, str],
    folder: AttemptFolder,
    node_python: NodePython,
) -> ReplicaSpec:
    """Add the variables, the interpreter and the packages of a node.

    ``task`` is the task of the warden, ``node`` the environment of the warden, ``folder`` the
    folder that the warden and the program share.  For the only replica of a launcher, all three are
    those of the launcher.
    """
    files = _list_files(replica, task, folder)
    replica = replica._replace(cwd=replica.cwd or os.getcwd())
    if replica.container == OWN_CONTAINER:
        own_env = drop_variables(node, task["drops"])
        return replica._replace(env={**own_env, **replica.env, **files})
    if replica.container:
        from trainshed.engines.warden import images  # noqa: PLC0415 - only images need it

        return images.complete(replica, node, {**select_devices(node), **files}, folder.shared)
    inherited = select_inherited(node, task["keeps"], task["unset"], task["drops"])
    command = compose_command(
        replica,
        python=node_python.python,
        packages=node_python.path_entries,
        base=inherited,
        # in a container, the values are those of its image
        devices={} if task["in_container"] else select_devices(inherited),
    )
    return replica._replace(argv=command.argv, env={**command.env, **files})


def select_inherited(
    node: Mapping[str, str], keeps: Sequence[str], unset: Sequence[str], drops: Sequence[str]
) -> dict[str, str]:
    """Select the variables of a node that its programs get.

    ``keeps`` are further names to include, ``unset`` are names to leave out, and ``drops`` are
    prefixes of such names.
    """
    selected = drop_variables(select_for_programs(node, keeps), drops)
    return {name: text for name, text in selected.items() if name not in unset}


def drop_variables(node: Mapping[str, str], drops: Sequence[str]) -> dict[str, str]:
    """Return the variables without those for wardens, and those with a prefix in ``drops``."""
    prefixes = (LAUNCHER, *drops)
    return {name: text for name, text in node.items() if not name.startswith(prefixes)}


def select_devices(node: Mapping[str, str]) -> dict[str, str]:
    """Select the variables of a node that name the devices of a program."""
    return {name: node[name] for name in _DEVICES if name in node}


def compose_interpreter() -> tuple[str, ...]:
    """Return the words that start the interpreter of this process again.

    In a container, the interpreter may be one that its own loader has started.
    """
    root = os.path.dirname(os.path.dirname(sys.executable))
    start, loader = f"{root}/start", f"{root}/ld.so"
    if not os.path.exists(loader):
        return (sys.executable,)
    words = (start, loader) if os.path.exists(start) else (loader,)
    return (*words, "--library-path", f"{root}/lib", "--argv0", sys.executable, sys.executable)


def _list_files(
    replica: ReplicaSpec, task: Mapping[str, Any], folder: AttemptFolder
) -> dict[str, str]:
    """List the variables that name files which the warden and the program share."""
    files = {
        trainer_contract.NOTICE_FILE: folder.notice,
        trainer_contract.PROGRESS_FILE: folder.progress(replica.task_name),
    }
    if not task["folder"]:
        paths = program_files.list_paths(folder, replica.task_name)
        files.update({name: path for name, path in paths.items() if name in replica.env})
    return files
