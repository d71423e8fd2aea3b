"""The local engine of a server: it starts one supervisor for each attempt.

The state of an attempt is in its folder under ``jobs`` (plan, lock, order to stop, records, log),
and not in the engine's memory.  So a restarted server, or a second server on the same folder, has
the same state.
"""

import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from trainshed.engines.attempt_table import AttemptTable
from trainshed.engines.base import (
    Endpoint,
    FilesystemView,
    JobListeners,
    JobNeeds,
    ListedAttempt,
    NodeLocation,
    ReplicaShape,
    Traits,
)
from trainshed.engines.capabilities import GpuNow
from trainshed.engines.isolation import mounts
from trainshed.engines.isolation.compose import Isolation
from trainshed.engines.isolation.modes import SANDBOX
from trainshed.engines.local import machine
from trainshed.engines.local.attempts.attempt import TrackedAttempt, send_lines
from trainshed.engines.local.attempts.fence import Fence, identity_of
from trainshed.engines.local.attempts.find import attempts_of, list_attempts
from trainshed.engines.local.attempts.fork import ForkServer
from trainshed.engines.local.attempts.listeners import ask_listeners
from trainshed.engines.local.attempts.plan_file import Preparation
from trainshed.engines.local.attempts.start import AttemptStarter
from trainshed.engines.local.attempts.sweep import Sweeper
from trainshed.engines.local.containers.bridge import bridge_address
from trainshed.engines.local.containers.roots import ContainerRoots
from trainshed.engines.local.devices import find
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.devices.inventory import DeviceStatus, Inventory, held_s, leased_to
from trainshed.engines.local.devices.remembered import Remembered
from trainshed.engines.local.devices.sampler import Sampler
from trainshed.engines.local.end_watcher import EndWatcher
from trainshed.engines.local.options import LocalOptions
from trainshed.engines.local.port_watch import PortWatch
from trainshed.engines.network.addresses import loopback_addresses, own_addresses
from trainshed.engines.processes import peers
from trainshed.engines.processes.identity import is_alive
from trainshed.engines.processes.variables import without_secrets
from trainshed.engines.supervise.kernel import cgroups, kill
from trainshed.engines.supervise.leftovers import (
    PID_NAMESPACE,
    SUBREAPER,
    describe_means,
    list_marked,
)
from trainshed.engines.supervise.record.folder import AttemptFolder, Order
from trainshed.engines.supervise.record.gpu_file import NAME as GPU_FILE
from trainshed.engines.supervise.record.observe import measured, steps_of
from trainshed.engines.supervise.record.sent import sent
from trainshed.engines.supervise.record.spec import HangRule, LogRule
from trainshed.engines.supervise.record.usage_file import (
    read_newest_steps,
    read_newest_usage,
    read_usage,
)
from trainshed.files.beneath import PathBeneath
from trainshed.files.trees import remove_tree
from trainshed.model.attempt import AttemptKey, Measured, Observation
from trainshed.model.codec import encode
from trainshed.model.faults import EngineFault, is_transient
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.log_line import SERVICE_TASK
from trainshed.model.network import NetworkLayout
from trainshed.model.resources import Claim, FleetPolicy, Node, SeatsOrClaim
from trainshed.model.step_times import StepTimes
from trainshed.model.stopping import StopOrder
from trainshed.model.usage import UsageLine

_LOG = logging.getLogger(__name__)

_SWEEP_S: Final = 1.0
_DEFAULTS: Final = LocalOptions()


class LocalEngine:
    """Runs attempts on this machine; implements ``engines.base.Engine``."""

    def __init__(self, root: Path, options: LocalOptions = _DEFAULTS) -> None:
        """Put the folders of attempts below ``root``."""
        self.name = options.name
        self._root = root.absolute()
        self._options = options
        is_real = options.find_gpus is None and not options.fake_gpus
        self._sampler = Sampler(file=self._root.with_name(GPU_FILE)) if is_real else None
        self._inventory = Inventory(
            self._root,
            options.find_gpus or partial(find.devices, options.fake_gpus),
            problem=self._problem,
            remembered=Remembered(self._root.with_name("gpus.json")) if is_real else None,
        )
        self._buckets = options.buckets or self._root.with_name("buckets")
        isolation, network, containers = options.isolation, options.network, options.containers
        self._network_callbacks: list[Callable[[AttemptKey], object]] = []
        leftovers = self._leftovers = _find_leftover_means(isolation)
        self.traits = Traits(
            reach=NodeLocation.THIS_MACHINE,
            python=sys.executable,
            containers=containers,
            isolation=isolation.description if isolation else "",
            uids=isolation.uids if isolation and isolation.has_users else None,
            leftovers=describe_means(leftovers),
            has_networks=network.is_own,
            network=network.description,
            has_names=isolation.has_names if isolation else mounts.allowed(),
            bridge=bridge_address(containers.runtime),
        )
        if options.processes_max and not _can_limit_processes(isolation):
            _LOG.warning(
                "cannot enforce limits.processes_max: this machine offers no pids cgroup, and jobs "
                "run as root"
            )
        self._node_name = options.node_name or os.uname().nodename
        self._attempts = AttemptTable(
            lambda key: TrackedAttempt(key, self._folder(key)),
            lambda attempt: attempt.observation(self._sweeper),
            is_over=lambda attempt: not attempt.is_running(),
        )
        self._swept_at = 0.0
        helpers = without_secrets(os.environ)
        self._sweeper = Sweeper(containers.runtime, helpers)
        self._roots = ContainerRoots(containers.runtime, helpers)
        self._fence = Fence(self._sweeper)
        self._ends = EndWatcher()
        self._port_watch = PortWatch(self._supervisors, self._warn)
        self._fork_server = ForkServer()

    def fleet(self) -> Sequence[Node]:
        """Return this machine as a node.  Calls the GPU driver, which may hang, without a lock."""
        return (self._describe_node(self._inventory.status()),)

    def sight(
        self, key: AttemptKey, shape: Sequence[ReplicaShape], layout: NetworkLayout | None = None
    ) -> FilesystemView:
        """Return addresses in the attempt's own network, or free loopback ports; and its folders.

        Raises EngineFault.
        """
        folder = self._folder(key)
        addresses = own_addresses(shape, layout) if layout else loopback_addresses(shape)
        return FilesystemView(
            addresses=addresses,
            work=folder.work,
            exchange=folder.shared,
            metrics=folder.metrics,
            earlier=tuple(self._folder(older).work for older in key.earlier),
            buckets=str(self._buckets),
        )

    def health(self) -> None:
        """Return None: the engine works whenever its server runs."""

    def judge(self, needs: JobNeeds) -> None:
        """Accept every job: the server judges jobs by the node when it places them."""
        del needs

    def manifest(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> Mapping[str, str]:
        """Return the plan as JSON; this engine sends no other texts."""
        del key, place
        return {"plan.json": json.dumps(encode(plan), indent=2)}

    def launch(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> None:
        """Start a supervisor, unless one began before or the attempt has an order to stop.

        Raises EngineFault when a seat is on another node, or no process can be started.  The caller
        retries after two other exceptions: ``OlderAttemptLives`` when an older attempt of the job
        could not be ended yet, and OSError for a temporary condition, such as a full disk.
        """
        if isinstance(place, Claim):
            raise EngineFault(
                f"the engine {self.name} has no queue: place must be seats, got a claim"
            )
        other_nodes = {seat.node for seat in place} - {self._node_name}
        if other_nodes:
            names = ", ".join(sorted(other_nodes))
            raise EngineFault(f"seats must be on the node {self._node_name}, got {names}")
        node = self._describe_node(self._inventory.ensure_status())
        emulates = node.policy is FleetPolicy.EMULATE
        with self._attempts.lock:
            attempt = self._attempts.get(key)
            try:
                if attempt.may_begin():
                    self._fence.close(key, attempt.folder)
                    self._begin(key, attempt, plan, emulates=emulates)
            except OSError as error:
                if is_transient(error):
                    raise
                raise EngineFault(f"cannot start attempt {key}: {error}") from error

    def stop(self, key: AttemptKey, order: StopOrder) -> None:
        """Order the end of an attempt and return at once; the attempt may not have begun yet.

        The call may be repeated; a shorter grace period replaces the rest of a longer one.  Raises
        EngineFault if the order cannot be written, and the caller retries; an attempt that has
        begun ends even then.
        """
        supervisor_order = Order(order.grace_s, order.reason.value, order.message)
        with self._attempts.lock:
            attempt = self._attempts.get(key)
            try:
                attempt.records.read(attempt.folder.records)
                if attempt.records.ended is not None:
                    return
                attempt.folder.give_order(supervisor_order)
                attempt.records.read(attempt.folder.records)
            except OSError as error:
                raise EngineFault(f"cannot stop attempt {key}: {error}") from error
            finally:  # if the disk is full, this job may have filled it
                attempt.notify_supervisor(supervisor_order)

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """Return the state of these attempts, from new content of their folders."""
        with self._attempts.lock:
            self._sweep(keys)
            return [self._attempts.observe(key) for key in keys]

    def measured(self, key: AttemptKey, after: int) -> Measured:
        """Return the reports that an attempt's supervisor has written.  Raises OSError."""
        return measured(self._folder(key), after)

    def read_usage(
        self, key: AttemptKey, since_s: float = -math.inf, until_s: float = math.inf
    ) -> Sequence[UsageLine]:
        """Read what an attempt's supervisor has measured.  Raises OSError."""
        return read_usage(self._folder(key), since_s, until_s)

    def read_newest_usage(self, key: AttemptKey, after_s: float = -math.inf) -> Sequence[UsageLine]:
        """Read the newest lines of ``read_usage`` alone.  Raises OSError."""
        return read_newest_usage(self._folder(key), after_s)

    def read_newest_steps(self, key: AttemptKey) -> Sequence[UsageLine]:
        """Read the newest lines of ``read_usage`` with steps alone.  Raises OSError."""
        return read_newest_steps(self._folder(key))

    def work_folder(self, key: AttemptKey) -> PathBeneath:
        """Return the working folder of the replicas of an attempt."""
        return PathBeneath.of_file(self._folder(key).work)

    def read_steps(self, key: AttemptKey, task_name: str) -> StepTimes | None:
        """Read the step times that a replica has reported so far; None if there are none."""
        return steps_of(self._folder(key), task_name)

    def list_attempts(self) -> Sequence[ListedAttempt]:
        """List the attempts that have a folder, or a process with their mark."""
        return list_attempts(self._root)

    def forget(self, uid: int) -> bool:
        """Remove the folder of a job unless a process of it lives.  Raises OSError."""
        folder = self._root / str(uid)
        with self._attempts.lock:
            keys = list(attempts_of(folder))
            if any(self._attempts.may_live(key, _has_processes) for key in keys):
                return False
            self._drop(keys)
        with suppress(FileNotFoundError):
            remove_tree(folder)
        return True

    def listen(self, callback: Callable[[Collection[AttemptKey]], None]) -> None:
        """Register a function to call when a supervisor that this process started has ended.

        Only a server calls this; it also starts sampling the GPUs and watching ports.
        """
        self._ends.listen(callback)
        self._port_watch.start()
        if self._sampler is not None:
            self._sampler.start()

    def close(self) -> None:
        """End the threads and the fork server; supervisors continue."""
        if self._sampler is not None:
            self._sampler.close()
        self._port_watch.close()
        self._fork_server.close()
        self._ends.close()
        self._sweeper.close()

    def attempt_at(self, remote: Endpoint, local: Endpoint) -> AttemptKey | None:
        """Return the attempt of the process at the remote end of a connection, or None."""
        supervisors = self._supervisors()
        return peers.holder_of(remote, local, supervisors) or self._roots.find_holder(
            remote, local, set(supervisors.values())
        )

    def ask_listeners(self, key: AttemptKey) -> JobListeners | None:
        return ask_listeners(self._folder(key))

    def on_network(self, callback: Callable[[AttemptKey], object]) -> None:
        self._network_callbacks.append(callback)

    def add_lines(self, key: AttemptKey, task: str, lines: Sequence[tuple[str, str]]) -> bool:
        return send_lines(self._folder(key), task, lines)

    def gpus_now(self) -> Sequence[GpuNow]:
        """Return the devices of the last status, with the attempt and the readings of each.

        Handlers of requests call this, so it never waits for the driver, which may hang.
        """
        status = self._inventory.latest()
        return [self._gpu_now(device, status) for device in status.devices]

    def read_sent(self, key: AttemptKey) -> Mapping[str, str]:
        return sent(self._folder(key))

    def _supervisors(self) -> dict[int, AttemptKey]:
        """Return the running supervisors by pid; processes of replicas are their descendants."""
        with self._attempts.lock:
            attempts = [row for row in self._attempts.list_all() if row.records.ended is None]
            for attempt in attempts:
                with suppress(OSError):  # the records that were read before are still valid
                    attempt.records.read(attempt.folder.records)
        began = ((attempt.records.began, attempt.key) for attempt in attempts)
        return {
            record.pid: key for record, key in began if record and is_alive(identity_of(record))
        }

    def _warn(self, key: AttemptKey, text: str) -> bool:
        return send_lines(self._folder(key), SERVICE_TASK, [(text, "WARNING")])

    def _describe_node(self, status: DeviceStatus) -> Node:
        options = self._options
        return machine.node_of(
            self._node_name,
            status,
            policy=options.policy,
            slots=options.slots,
            gpu_alias=options.gpu_alias,
            isolation=options.isolation.mode if options.isolation else "",
            leftovers=self._leftovers,
            network=self.traits.network,
        )

    def _problem(self, device: GpuDevice) -> str:
        return "" if self._sampler is None else self._sampler.problem(device)

    def _gpu_now(self, device: GpuDevice, status: DeviceStatus) -> GpuNow:
        lease_holder = leased_to(self._root, device)
        gpu = machine.node_gpu(device, status, str(lease_holder) if lease_holder else "")
        attempt = None if lease_holder is None else lease_holder.attempt
        if self._sampler is None:
            return GpuNow(gpu=gpu, attempt=attempt)
        unused_s = None if attempt is None else self._sampler.unused_s(device.uuid)
        return GpuNow(
            gpu=gpu,
            attempt=attempt,
            reading=self._sampler.reading(device.uuid),
            idle_s=None if unused_s is None else min(unused_s, held_s(device)),
            recent=self._sampler.recent(device.uuid),
            xids=self._sampler.xid_counts(device),
            driver=self._sampler.driver,
        )

    def _folder(self, key: AttemptKey) -> AttemptFolder:
        return AttemptFolder(self._root / str(key.uid) / str(key.attempt))

    def _begin(
        self, key: AttemptKey, attempt: TrackedAttempt, plan: LaunchPlan, *, emulates: bool
    ) -> None:
        options = self._options
        plan = machine.bounded(plan, options.processes_max)
        status = self._inventory.latest()
        preparation = Preparation(
            plan=machine.emulated(plan) if emulates else plan,
            cache_dir=str(options.cache_dir) if options.cache_dir else None,
            uses_gpus=not emulates,
            gpu_alias=options.gpu_alias,
            closed_gpus=status.faulty,
            gpu_wait_s=options.gpu_wait_s,
            fake_gpus=options.fake_gpus,
            package_bytes_max=options.package_bytes_max,
            relax_pins=options.relax_pins,
            environments_bytes_max=options.environments_bytes_max,
            runtime=options.containers.runtime,
            isolation=options.isolation,
            variables=None if options.pass_env is None else tuple(options.pass_env),
        )
        starter = AttemptStarter(
            devices=() if emulates else status.devices,
            hang=HangRule(after_s=options.hang_s, stacks=options.hang_stacks),
            grace_s=options.grace_s,
            log=LogRule(options.log_bytes_per_s_max, options.log_bytes_max),
            usage_s=options.usage_s,
            fork=self._fork_server.fork,
        )
        attempt.child, attempt.forked = starter.begin(key, attempt.folder, preparation)
        attempt.was_ours = True
        self._ends.watch(key, attempt.child)
        if plan.network is not None and plan.network.listeners:
            for callback in self._network_callbacks:
                callback(key)

    def _sweep(self, keys: Collection[AttemptKey]) -> None:
        """Reap supervisors that have ended, and drop old attempts that are not in ``keys``."""
        now = time.monotonic()
        if now - self._swept_at < _SWEEP_S:
            return
        self._swept_at = now
        for attempt in self._attempts.list_all():
            attempt.is_running()
        self._drop(self._attempts.drop_old(keys))

    def _drop(self, keys: Collection[AttemptKey]) -> None:
        self._attempts.drop(keys)
        for key in keys:
            self._sweeper.forget(key)


def _has_processes(attempt: TrackedAttempt) -> bool:
    """Return whether a process of an attempt runs, by its lock and by marks of processes."""
    return attempt.folder.is_held() or bool(list_marked(str(attempt.key)))


def _can_limit_processes(isolation: Isolation | None) -> bool:
    """Return whether a cgroup, or a user that is not root, can limit a replica's processes."""
    is_root = os.geteuid() == 0 and not (isolation and isolation.has_users)
    return cgroups.offers(cgroups.PIDS) or not is_root


def _find_leftover_means(isolation: Isolation | None) -> str:
    """Return this machine's best means to end the processes that a killed supervisor leaves."""
    namespace = isolation is not None and isolation.mode == SANDBOX
    return kill.find_box_strategy() or (PID_NAMESPACE if namespace else SUBREAPER)
