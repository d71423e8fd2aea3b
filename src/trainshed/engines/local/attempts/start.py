"""Starts the supervisor of an attempt: writes down what it is to do, then makes the process.

Most attempts need nothing that takes time, and their spec is complete.  Packages are installed
and devices are leased by a child of the supervisor (``preparing``), which completes it.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from trainshed.engines.local.attempts import plan_file
from trainshed.engines.local.attempts.folder import AttemptFolder
from trainshed.engines.local.attempts.plan_file import Preparation, Site
from trainshed.engines.local.attempts.spawn import replica_base_env, spawn, supervisor_argv
from trainshed.engines.local.devices import gpus
from trainshed.engines.local.devices.gpus import Device
from trainshed.engines.local.environments.prepared import Prepared
from trainshed.engines.local.supervise.spec import AttemptSpec, HangRule
from trainshed.model.attempt import AttemptKey
from trainshed.model.launch_plan import LaunchPlan

PREPARING = "trainshed.engines.local.attempts.prepare"


class Beginning(NamedTuple):
    """How attempts are begun on this machine."""

    devices: Sequence[Device]
    """What the machine has; nothing where GPUs are emulated."""
    hang: HangRule
    grace_s: float = plan_file.GRACE_S
    """What those get that live on when the job is over."""

    def begin(self, key: AttemptKey, folder: AttemptFolder, preparation: Preparation) -> int:
        """Start a supervisor; its pid.  Raises OSError or EngineFault."""
        env = replica_base_env()
        site = Site(key=key, folder=folder, env=env, runtime=preparation.runtime)
        folder.make()
        plan_file.write(folder.plan, self._spec(site, preparation.plan), preparation)
        return spawn(supervisor_argv(folder), env, folder.words)

    def _spec(self, site: Site, plan: LaunchPlan) -> AttemptSpec:
        if needs_preparer(plan):
            outlines = plan_file.outlines_of(site, plan)
            prepare = (sys.executable, "-P", "-m", PREPARING, site.folder.path)
            return plan_file.spec_of(
                site, plan, outlines, prepare=prepare, hang=self.hang, grace_s=self.grace_s
            )
        notes: list[str] = []
        with gpus.assigned(
            plan.replicas, self.devices, notes.append, lone_takes_all=False
        ) as shares:
            home = Prepared(python=plan.environment.python)
            replicas = plan_file.replicas_of(site, plan, home, shares)
        return plan_file.spec_of(
            site, plan, replicas, notes=notes, hang=self.hang, grace_s=self.grace_s
        )


def needs_preparer(plan: LaunchPlan) -> bool:
    """Whether packages are to be installed, an interpreter to be found, or devices to be leased.

    Devices also where the machine seems to have none: a job that is to have some never begins
    without, and it is the preparer that waits.
    """
    environment = plan.environment
    if environment.packages or environment.requirements or "/" not in environment.python:
        return True
    return any(replica.gpu_count for replica in plan.replicas)
