"""The local engine of a server: one runner process an attempt, found again by its folder.

Nothing that the server must not lose is in its memory: an attempt is its folder under ``jobs``
(plan, lock, order to stop, records, log), so a restarted server, or a second one on the same
folder, sees the same.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trainshed.engines.base import AttemptKey, Observation, Outcome, Phase
from trainshed.engines.local import identity, machine, nvml, plan_file, telling
from trainshed.engines.local.attempt_folder import AttemptFolder, StopOrder
from trainshed.engines.local.gpus import Device
from trainshed.engines.local.plan_file import Errand
from trainshed.engines.local.records import Known
from trainshed.engines.local.runner import stopped_early
from trainshed.engines.local.spawning import spawn
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.resources import FleetPolicy, Node, Seat

_LOG = logging.getLogger(__name__)

RUNNER: Final = "trainshed.engines.local.runner"

#: A runner that has not begun after this time, and is no child of ours, is given up (fenced).
BEGIN_S_MAX: Final = 60.0
_DEVICES_S: Final = 30.0
_SWEEP_S: Final = 1.0
_KNOWN_MAX: Final = 10_000


@dataclass(slots=True)
class _Attempt:
    """What this process remembers of an attempt, to read on from there."""

    folder: AttemptFolder
    known: Known = field(default_factory=Known)
    child: int | None = None
    """The pid of a runner that this process has started and not yet collected."""
    was_ours: bool = False
    """Whether this process has started one: it then knows when it has ended."""
    is_strange: bool = False
    """Whether somebody was told that its folder cannot be read."""

    def is_running(self) -> bool:
        """Whether a runner that this process has started lives; one that has ended is collected."""
        if self.child is not None:
            try:
                ended = os.waitpid(self.child, os.WNOHANG)[0] != 0
            except ChildProcessError:
                ended = True
            if ended:
                self.child = None
        return self.child is not None


class LocalEngine:
    """Runs attempts on this machine; implements ``engines.base.Engine``."""

    def __init__(  # noqa: PLR0913 - the settings of one machine, each with its default
        self,
        root: Path,
        *,
        cache_dir: Path | None = None,
        policy: FleetPolicy | None = None,
        slots: int | None = None,
        gpu_alias: Mapping[str, str] | None = None,
        find_gpus: Callable[[], Sequence[Device]] = nvml.devices,
        name: str = "local",
        node_name: str | None = None,
    ) -> None:
        """Keep attempts below ``root``; ``node_name`` is this machine's host name by default."""
        self.name = name
        self._root = root.absolute()
        self._cache_dir = cache_dir
        self._policy = policy
        self._slots = slots
        self._gpu_alias = dict(gpu_alias or {})
        self._find_gpus = find_gpus
        self._node_name = node_name or os.uname().nodename
        self._lock = threading.RLock()
        self._attempts: dict[AttemptKey, _Attempt] = {}
        self._devices: Sequence[Device] = ()
        self._devices_at = -_DEVICES_S
        self._swept_at = 0.0

    def nodes(self) -> Sequence[Node]:
        """The one machine."""
        return (self._node(),)

    def launch(self, key: AttemptKey, plan: LaunchPlan, seats: Sequence[Seat]) -> None:
        """Start a runner, unless one began before or the attempt was to stop; return at once.

        Raises EngineFault when a seat is not here, or no process can be started.
        """
        strange = {seat.node for seat in seats} - {self._node_name}
        if strange:
            raise EngineFault(f"{', '.join(sorted(strange))}: not the local engine's node")
        errand = self._errand(plan)
        with self._lock:
            attempt = self._attempt(key)
            try:
                if self._may_begin(attempt):
                    self._begin(attempt, errand)
            except OSError as error:
                raise EngineFault(f"the attempt {key} cannot be started: {error}") from error

    def stop(self, key: AttemptKey, grace_s: float) -> None:
        """Order the end of an attempt, also of one that has not begun; return at once.

        May be repeated; a shorter grace replaces a longer one only before the replicas were told,
        and 0 kills at any time.  Raises EngineFault when the order cannot be written, which must
        be tried again; an attempt that has begun ends all the same.
        """
        with self._lock:
            attempt = self._attempt(key)
            try:
                attempt.known.read(attempt.folder.records)
                if attempt.known.ended is not None:
                    return
                attempt.folder.give_order(StopOrder(grace_s=grace_s))
                attempt.known.read(attempt.folder.records)
            except OSError as error:
                raise EngineFault(f"the attempt {key} cannot be stopped: {error}") from error
            finally:  # the disk may be full because of the very job that is to end
                if attempt.known.began is not None and attempt.known.ended is None:
                    identity.send(attempt.known.began, signal.SIGTERM)

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """What the folders of these attempts say, read on from the last time."""
        with self._lock:
            self._sweep(keys)
            return [self._observation(key) for key in keys]

    def _node(self) -> Node:
        with self._lock:
            now = time.monotonic()
            if now - self._devices_at >= _DEVICES_S:
                self._devices, self._devices_at = self._find_gpus(), now
            return machine.node_of(
                self._node_name,
                self._devices,
                policy=self._policy,
                slots=self._slots,
                gpu_alias=self._gpu_alias,
            )

    def _errand(self, plan: LaunchPlan) -> Errand:
        emulates = self._node().policy is FleetPolicy.EMULATE
        return Errand(
            plan=machine.emulated(plan) if emulates else plan,
            cache_dir=str(self._cache_dir) if self._cache_dir else None,
            uses_gpus=not emulates,
        )

    def _attempt(self, key: AttemptKey) -> _Attempt:
        if key not in self._attempts:
            folder = AttemptFolder(self._root / str(key.uid) / str(key.attempt))
            self._attempts[key] = _Attempt(folder)
        return self._attempts[key]

    def _may_begin(self, attempt: _Attempt) -> bool:
        attempt.known.read(attempt.folder.records)
        if attempt.known.began is not None or attempt.is_running():
            return False
        return attempt.folder.stop_order() is None

    def _begin(self, attempt: _Attempt, errand: Errand) -> None:
        folder = attempt.folder
        folder.make()
        plan_file.write(folder.plan, errand)
        attempt.child = spawn((sys.executable, "-P", "-m", RUNNER, str(folder.path)), folder.words)
        attempt.was_ours = True

    def _observation(self, key: AttemptKey) -> Observation:
        attempt = self._attempt(key)
        try:
            attempt.known.read(attempt.folder.records)
            if attempt.known.ended is None and not self._lives(attempt):
                return self._without_runner(key, attempt)
        except Exception:  # noqa: BLE001 - one folder that cannot be read hides no other attempt
            if not attempt.is_strange:
                _LOG.warning("the attempt %s cannot be looked at", key, exc_info=True)
            attempt.is_strange = True
            return Observation(key=key, phase=Phase.UNKNOWN)
        return telling.told(key, attempt.known)

    def _lives(self, attempt: _Attempt) -> bool:
        """A free lock is no proof where somebody has removed the file: its runner is looked for."""
        began = attempt.known.began
        is_there = attempt.is_running() or attempt.folder.is_held()
        return is_there or (began is not None and identity.lives(began))

    def _without_runner(self, key: AttemptKey, attempt: _Attempt) -> Observation:
        """Nobody holds the lock: what was written before it was released is all there will be."""
        folder, known = attempt.folder, attempt.known
        known.read(folder.records)
        if known.ended is not None:
            return telling.told(key, known)
        if known.decided is not None:
            decided = known.decided
            outcome = Outcome(exit_code=decided.exit_code, replicas=(), message=decided.message)
            return telling.ended(key, known, outcome)
        if known.began is not None:
            return telling.lost(key, known, telling.last_words(folder) or "its runner was killed")
        return self._never_begun(key, attempt)

    def _never_begun(self, key: AttemptKey, attempt: _Attempt) -> Observation:
        folder, known = attempt.folder, attempt.known
        order = folder.stop_order()
        if order is not None:
            why = telling.last_words(folder) or "its runner never began"
            return (
                telling.lost(key, known, why)
                if order.lost
                else telling.ended(key, known, stopped_early())
            )
        if not folder.plan.exists():
            return Observation(key=key, phase=Phase.UNKNOWN)
        if not attempt.was_ours and time.time() - folder.plan.stat().st_mtime < BEGIN_S_MAX:
            return telling.told(key, known)
        # no runner that is only late may begin from now on (DESIGN 5.6); the next look says so
        folder.give_order(StopOrder(grace_s=0.0, lost=True))
        return telling.told(key, known)

    def _sweep(self, keys: Collection[AttemptKey]) -> None:
        """Collect runners that have ended, and forget attempts that nobody asks for any more."""
        now = time.monotonic()
        if now - self._swept_at < _SWEEP_S:
            return
        self._swept_at = now
        ended = [k for k, a in self._attempts.items() if not a.is_running()]
        if len(self._attempts) > _KNOWN_MAX + len(keys):
            for key in set(ended).difference(keys):
                del self._attempts[key]
