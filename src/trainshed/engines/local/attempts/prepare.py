"""Prepares an attempt: installs its packages, leases its devices.

The preparer is a child of the supervisor, so that its imported modules do not stay in the
supervisor's memory for days.  It prints notes for the job's log.  It sends its answer through
descriptor 3: one JSON object, with the locks of the devices and of the packages attached.  From
then on the supervisor holds the locks, and its end frees them.

``python -P -m trainshed.engines.local.attempts.prepare`` ends with 0, with ``HELD`` where other
processes hold the devices (not a fault of the job), or with 1 where the job cannot be prepared.
The last line on stderr is the reason.
"""

import os
import sys
from pathlib import Path

from trainshed.engines.environments.job_python import JobPython
from trainshed.engines.isolation.compose import builder_of
from trainshed.engines.local.attempts import plan_file
from trainshed.engines.local.attempts.plan_file import Preparation
from trainshed.engines.local.devices import find
from trainshed.engines.local.devices import locks as device_locks
from trainshed.engines.local.devices import wait as device_waiting
from trainshed.engines.local.devices.gpus import Share
from trainshed.engines.local.devices.leases import DeviceLeaser, DevicesHeld, Lease
from trainshed.engines.local.devices.locks import DeviceHolder
from trainshed.engines.supervise.helpers.preparing import (
    FAILED,
    HELD,
    answer,
    installing,
    note,
    say,
    take_request,
    warn,
)
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import PreparerAnswer
from trainshed.files.caches import default_cache_dir
from trainshed.model.attempt import AttemptKey
from trainshed.model.codec import encode
from trainshed.model.faults import EngineFault


def main() -> int:
    """Prepare the attempt whose folder the supervisor has sent; return the exit status."""
    folder = AttemptFolder(take_request())
    try:
        _prepare(folder)
    except DevicesHeld as fault:
        return say(fault, HELD)
    except EngineFault as fault:
        return say(fault, FAILED)
    return 0


def _prepare(folder: AttemptFolder) -> None:
    preparation = plan_file.read(folder.plan)
    key = _read_key(folder)
    with installing():
        home = _prepare_python(preparation, folder)
    lease = _lease_devices(preparation, key, Path(folder.path).parents[1])
    site = plan_file.site_of(preparation, key, folder)._replace(devices=lease.devices)
    replicas = plan_file.replicas_of(site, preparation.plan, home, lease.shares)
    after = device_waiting.command(sys.executable, lease.uuids)
    answer(encode(PreparerAnswer(replicas, after, lease.uuids)), [home.used, *lease.locks])


def _prepare_python(preparation: Preparation, folder: AttemptFolder) -> JobPython:
    """Install the packages of a job, if it has any; return its Python.  Raises EngineFault."""
    plan = preparation.plan
    environment = plan.environment
    if "/" in environment.python and not (environment.packages or environment.requirements):
        return JobPython(python=environment.python)
    # most jobs install nothing, and do not wait for these imports
    from trainshed.engines.environments import cache, prune  # noqa: PLC0415  # see above
    from trainshed.engines.environments.builder import PROJECTS, Builder  # noqa: PLC0415

    own_dir = preparation.cache_dir
    cache_dir = root_dir = default_cache_dir() if own_dir is None else Path(own_dir)
    view, owner = builder_of(preparation.isolation, plan, folder)
    if view is not None and plan.owner is not None:
        cache_dir = cache_dir / PROJECTS / str(plan.owner.number)
    job_python = cache.prepare(
        environment,
        cache_dir=cache_dir,
        note=note,
        bytes_max=preparation.package_bytes_max,
        builder=Builder(view, owner, tuple(preparation.variables or ())),
        relaxes=preparation.relax_pins,
    )
    if preparation.environments_bytes_max is not None:
        prune.prune(root_dir, preparation.environments_bytes_max)
    return job_python


def _lease_devices(preparation: Preparation, key: AttemptKey, root: Path) -> Lease:
    replicas = preparation.plan.replicas
    if not preparation.uses_gpus:
        return Lease(shares=(Share(),) * len(replicas), locks=())
    with find.open_devices(preparation.fake_gpus) as list_devices:
        leaser = DeviceLeaser(
            list_devices=list_devices,
            # the supervisor is the parent of this process, and holds the devices from now on
            holder=_make_holder(preparation, key, root),
            note=note,
            warn=warn,
            aliases=preparation.gpu_alias,
            lock_dir=device_locks.shared_directory(),
            closed=preparation.closed_gpus,
        )
        if preparation.takes_free:
            return leaser.lease_free(replicas)
        return leaser.lease(replicas, preparation.gpu_wait_s)


def _make_holder(preparation: Preparation, key: AttemptKey, root: Path) -> DeviceHolder:
    if preparation.takes_free:
        return DeviceHolder(os.getppid(), "a local run")
    return DeviceHolder(os.getppid(), f"attempt {key}", str(root))


def _read_key(folder: AttemptFolder) -> AttemptKey:
    path = Path(folder.path)
    return AttemptKey(uid=int(path.parent.name), attempt=int(path.name))


if __name__ == "__main__":
    sys.exit(main())
