"""The controller: threads that reconcile the store with the engines.

Each step works alone and from any state of the store: it reads its input afresh, guards its writes
by version and lease, and may be repeated.  So a crash between two steps, or inside one, loses
nothing.  Tests call the steps one by one.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from trainshed.controller.choosing import Startable
from trainshed.controller.deadlines import Deadlines
from trainshed.controller.fleet import FleetReporter
from trainshed.controller.hangs import Hangs
from trainshed.controller.launches import Launches
from trainshed.controller.leases import Leases
from trainshed.controller.listener import ControllerListener, NoControllerListener
from trainshed.controller.maintenance import Maintenance
from trainshed.controller.model_folder import ModelFolders
from trainshed.controller.observe import Observer
from trainshed.controller.perform import COMMANDS_MAX, Compose, Performer
from trainshed.controller.schedule import Scheduler
from trainshed.controller.studies import MakeJob, Studies
from trainshed.controller.worker import Pace, Worker
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.restarts import Budgets
from trainshed.placement.jobs import QuotaRule
from trainshed.storage.buckets import Buckets
from trainshed.store.base import StoreFault
from trainshed.store.holdings import Holdings
from trainshed.store.opening import Store

_LOG = logging.getLogger(__name__)

#: Renewals in the life of a lease, so that one late renewal does not let it expire.
_RENEWALS = 4
#: A thread rests this many times as long as its pass took; with many jobs a pass is expensive.
_SCHEDULE_REST = 3.0
_OBSERVE_REST = 3.0
_STUDIES_REST = 1.0
#: Seconds that ``stop`` waits for a query of the machine's devices: a GPU's driver may hang.
_FLEET_END_S = 2.0
#: Seconds that ``stop`` waits for parallel launches; a later server finds them again.
_LAUNCH_END_S: Final = 2.0
#: A pass that performed this many commands has left others waiting.
_MANY = COMMANDS_MAX // 2


class Controller:
    """Does one server's share of the work.

    ``server`` is the name of this server in the store.  A server that was killed and restarts under
    the same name continues at once, so the name must belong to one living process.  Under another
    name, the server waits until the old lease expires.
    """

    def __init__(  # noqa: PLR0913 - what differs between servers and tests, passed by name
        self,
        store: Store,
        engines: Engines,
        *,
        server: str,
        compose: Compose,
        make_trial_job: MakeJob | None = None,
        quotas: Sequence[QuotaRule] = (),
        budgets: Budgets | None = None,
        hang_restart: bool = False,
        startable: Startable | None = None,
        buckets: Buckets | None = None,
        pace: Pace | None = None,
        clock: Callable[[], datetime] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        listener: ControllerListener | None = None,
    ) -> None:
        """Read and start nothing before ``start`` or a step.

        ``make_trial_job`` makes the jobs of trials; without it there is no tuning.
        ``budgets`` limit how often a job may restart.  ``hang_restart``: restart a hung job
        instead of only reporting it.  ``startable`` returns why an engine cannot start a job's
        programs.  ``buckets`` hold the model folders of pipelines; without them the controller
        does not check model folders.  ``listener`` gets the durations of passes,
        commands and suggestions.
        """
        listener = self._listener = listener or NoControllerListener()
        pace = pace or Pace()
        engines.set_lookup(store.engines_of)
        self._monotonic = monotonic
        self._observe_s = pace.observe_s
        self._observed_at = float("-inf")
        leases = self._leases = Leases(store, server, ttl_s=pace.lease_ttl_s, monotonic=monotonic)
        holdings = Holdings(store)
        budgets = budgets or Budgets()
        self._fleet = FleetReporter(store, engines, monotonic)
        self._scheduler = Scheduler(
            store,
            leases,
            holdings,
            quotas,
            clock or store.now,
            monotonic,
            pace,
            engines,
            startable,
        )
        hangs = self._hangs = Hangs(store, restart=hang_restart, grace_s=pace.grace_s)
        model_folders = ModelFolders(store, buckets)
        self._observer = Observer(
            store, engines, leases, holdings, hangs, budgets, pace, model_folders
        )
        self._launches = Launches(
            lambda name: engines.traits_of(name).launches_at_once,
            partial(self._wake, "perform", "observe"),
        )
        self._performer = Performer(
            store,
            engines,
            leases,
            holdings,
            compose,
            self._observer.look_at,
            pace,
            monotonic,
            self._launches,
            listener,
        )
        self._deadlines = Deadlines(store, engines, leases, pace)
        self._maintenance = Maintenance(
            store,
            leases,
            holdings,
            budgets,
            pace,
            self._scheduler.look_at_nodes,
            lambda name: engines.traits_of(name).orders_nodes,
        )
        self._studies = (
            Studies(
                store,
                engines,
                leases,
                make_job=make_trial_job,
                listener=listener,
                grace_s=pace.grace_s,
            )
            if make_trial_job
            else None
        )
        self._workers = {worker.name: worker for worker in self._make_workers(pace)}
        for engine in engines:
            engine.listen(self._observe_soon)

    def _make_workers(self, pace: Pace) -> Iterator[Worker]:
        yield Worker("lease", self.lease_once, tick_s=pace.lease_ttl_s / _RENEWALS)
        yield Worker("fleet", self.fleet_once, tick_s=pace.fleet_s, end_s=_FLEET_END_S)
        yield Worker("schedule", self._schedule_if_due, tick_s=pace.tick_s, rest=_SCHEDULE_REST)
        yield Worker("perform", self._perform_all, tick_s=pace.tick_s)
        yield Worker("observe", self._observe_if_due, tick_s=pace.observe_s, rest=_OBSERVE_REST)
        yield Worker("deadlines", self.deadlines_once, tick_s=pace.deadlines_s)
        yield Worker("maintain", self.maintain_once, tick_s=pace.maintain_s)
        yield Worker("studies", self.studies_once, tick_s=pace.studies_s, rest=_STUDIES_REST)

    def _wake(self, *names: str) -> None:
        for name in names:
            self._workers[name].wake()

    # start and stop

    def start(self) -> None:
        """Take the leases, read the nodes, and start the threads.  Raises StoreFault."""
        self.lease_once()
        self.fleet_once()
        for worker in self._workers.values():
            worker.start()

    def stop(self) -> None:
        """End the threads and release the leases; jobs keep running."""
        for worker in self._workers.values():
            worker.end()
        for worker in self._workers.values():
            worker.join()
        self._launches.join(_LAUNCH_END_S)
        self._leases.leave()

    def look(self) -> None:
        """React to a submitted job; cheap, callable from any thread."""
        self._wake("schedule", "studies")

    def wake(self) -> None:
        """React to a cancelled or ended job; cheap, callable from any thread."""
        self._wake("schedule", "perform", "studies")

    def look_at_nodes(self) -> None:
        """React to a drained or resumed node; cheap, callable from any thread."""
        self._scheduler.look_at_nodes()
        self._wake("schedule", "maintain")

    def _observe_soon(self, keys: Collection[AttemptKey]) -> None:
        """React to the engine's report of changed attempts; callable from any thread."""
        self._observer.observe_soon(keys)
        self._wake("observe")

    @property
    def is_running(self) -> bool:
        """Whether all threads were started, and none has ended or is to end."""
        return all(worker.is_running for worker in self._workers.values())

    @property
    def hung_replicas(self) -> int:
        """Return the number of replicas of this server's jobs that hang now."""
        return self._hangs.count()

    @property
    def unattended_attempts(self) -> int:
        """Return the number of this server's attempts of which no engine knows whether they run."""
        return self._observer.unattended

    @property
    def leading(self) -> bool:
        """Return whether this server is the one that schedules."""
        return self._leases.leading

    # the steps

    def lease_once(self) -> int:
        """Renew the leases; take over jobs of expired servers and return their number."""
        name = self._leases.name
        try:
            uids = self._leases.once()
        except StoreFault:
            self._observer.reload()  # jobs may have been taken over despite the fault
            raise
        if uids or name != self._leases.name:
            _LOG.info("%s takes over %d job(s)", self._leases.name, len(uids))
            self._observer.reload()
            self._wake("perform")
        return len(uids)

    def fleet_once(self) -> bool:
        """Write the nodes to the store; return whether they have changed."""
        changed = self._fleet.once()
        if changed:
            self._wake("schedule")
        return changed

    def schedule_once(self) -> int:
        """Do one pass over the queue; return how many jobs were placed."""
        began = self._monotonic()
        placed = self._scheduler.once()
        if self.leading:
            self._listener.passed(self._monotonic() - began)
        if placed:
            self._wake("perform")
        return placed

    def perform_once(self) -> int:
        """Perform the stored commands on the engine; return how many were performed."""
        done = self._performer.once()
        if done:
            self._wake("observe")
        return done

    def observe_once(self) -> int:
        """Observe the engine's attempts; return how many jobs changed state."""
        self._observed_at = self._monotonic()
        return self._observe(only_new=False)

    def deadlines_once(self) -> int:
        """Cancel overdue jobs; return how many."""
        ended = self._deadlines.once()
        if ended:
            self.wake()
        return ended

    def maintain_once(self) -> int:
        """Give notice to jobs on nodes in maintenance; return how many."""
        ordered = self._maintenance.once()
        if ordered:
            self._wake("perform")
        return ordered

    def studies_once(self) -> int:
        """Advance the studies; return how many changed."""
        moved = self._studies.once() if self._studies else 0
        if moved:
            self._wake("schedule", "perform")
        return moved

    def _schedule_if_due(self) -> None:
        if self._scheduler.due() and self.schedule_once():
            self._wake("schedule")

    def _perform_all(self) -> None:
        while self.perform_once() >= _MANY:
            pass

    def _observe_if_due(self) -> None:
        """Between full passes, observe only newly launched attempts: thousands may be running."""
        if self._monotonic() - self._observed_at >= self._observe_s:
            self.observe_once()
        else:
            self._observe(only_new=True)

    def _observe(self, *, only_new: bool) -> int:
        moved = self._observer.once(only_new=only_new)
        if self._observer.has_freed:
            self.wake()
        return moved
