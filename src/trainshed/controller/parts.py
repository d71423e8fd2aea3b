"""The parts of a controller, each given what it touches; ``loop`` makes threads of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainshed.controller.deadlines import Deadlines
from trainshed.controller.fleet import Fleet
from trainshed.controller.hangs import Hangs
from trainshed.controller.holdings import Holdings
from trainshed.controller.leases import Leases
from trainshed.controller.maintenance import Maintenance
from trainshed.controller.observe import Observer
from trainshed.controller.pace import Pace
from trainshed.controller.perform import Compose, Performer
from trainshed.controller.schedule import Scheduler
from trainshed.controller.studies import MakeJob, Studies
from trainshed.engines.base import Engine
from trainshed.model.restarts import Budgets
from trainshed.placement.jobs import QuotaRule
from trainshed.store.opening import Store


@dataclass(frozen=True, slots=True)
class CommonParts:
    """What every part works with."""

    store: Store
    engine: Engine
    leases: Leases
    pace: Pace
    monotonic: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One object for each kind of step."""

    fleet: Fleet
    scheduler: Scheduler
    observer: Observer
    performer: Performer
    deadlines: Deadlines
    maintenance: Maintenance
    studies: Studies | None


def make_parts(  # noqa: PLR0913 - what differs between servers and tests, passed by name
    common: CommonParts,
    *,
    compose: Compose,
    make_trial_job: MakeJob | None,
    quotas: Sequence[QuotaRule],
    budgets: Budgets,
    hang_restart: bool,
    clock: Callable[[], datetime],
) -> Parts:
    """Nothing is read or started."""
    store, engine, leases, pace = common.store, common.engine, common.leases, common.pace
    holdings = Holdings(store)
    scheduler = Scheduler(
        store,
        leases,
        holdings,
        quotas=quotas,
        clock=clock,
        monotonic=common.monotonic,
        pace=pace,
    )
    observer = Observer(
        store,
        engine,
        leases,
        holdings,
        hangs=Hangs(store, restart=hang_restart, grace_s=pace.grace_s),
        budgets=budgets,
        batch=pace.batch,
    )
    return Parts(
        fleet=Fleet(store, engine, common.monotonic),
        scheduler=scheduler,
        observer=observer,
        performer=Performer(
            store,
            engine,
            leases,
            holdings,
            compose=compose,
            performed=observer.look_at,
            grace_s=pace.grace_s,
            monotonic=common.monotonic,
        ),
        deadlines=Deadlines(store, engine, leases, grace_s=pace.grace_s, batch=pace.batch),
        maintenance=Maintenance(
            store,
            leases,
            holdings,
            budgets=budgets,
            grace_s=pace.grace_s,
            batch=pace.batch,
            found=scheduler.look_at_nodes,
        ),
        studies=Studies(store, engine, leases, make_job=make_trial_job) if make_trial_job else None,
    )
