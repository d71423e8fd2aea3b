"""Makes the chores of a server: removing old data, measuring, and learning from jobs."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainshed.catalog.catalog import Catalog
from trainshed.config import Settings
from trainshed.engines.several import Engines
from trainshed.service.auth import bucket_tokens
from trainshed.service.auth.access import Access
from trainshed.service.auth.sign_ins import SignIns
from trainshed.service.costs.prices import PriceSource
from trainshed.service.learning.plan_notes import PlanNotes, SubmittedJob
from trainshed.service.learning.turns import CpuBudget
from trainshed.service.upkeep.audit_log import AuditRetention
from trainshed.service.upkeep.housekeeping import (
    ClockWatch,
    DiskWatch,
    Expiry,
    Housekeeping,
    Retention,
)
from trainshed.service.upkeep.project_bytes import Measuring, ProjectBytes
from trainshed.service.upkeep.usage_files import UsageThinning
from trainshed.storage.buckets import buckets_of
from trainshed.storage.log_files import JobLog
from trainshed.storage.uploads import Uploads
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord

if TYPE_CHECKING:
    from trainshed.planning.goodput import JobTimes
    from trainshed.service.costs.job_accounts import JobAccounts

#: Seconds between two searches for ended jobs to learn from and for new jobs to add notes to.
_LEARN_EVERY_S: Final = 2.0
#: Share of a processor that learning from jobs may take.
_LEARN_SHARE: Final = 0.05


def _jobs_dirs(settings: Settings, engines: Engines) -> tuple[Path, ...]:
    """List the folders of jobs: the server's own, and those of engines."""
    return tuple(dict.fromkeys([settings.jobs_dir, *engines.job_folders]))


def open_job_log(settings: Settings, engines: Engines) -> JobLog:
    server_dir, *engine_dirs = _jobs_dirs(settings, engines)
    return JobLog(server_dir, tuple(engine_dirs))


def make_housekeeping(  # noqa: PLR0913, PLR0917 - the inputs of the chores
    settings: Settings,
    store: Store,
    engines: Engines,
    access: Access,
    sign_ins: SignIns,
    uploads: Uploads,
    project_bytes: ProjectBytes,
    leads: Callable[[], bool],
    count_pruned: Callable[[int], None],
) -> Housekeeping:
    retention = Retention(
        store=store,
        job_log=open_job_log(settings, engines),
        bytes_max=settings.log_bytes_max,
        days_max=settings.log_days_max,
        moment_before=store.moment_before,
        count_pruned=count_pruned,
    )
    expiry = Expiry(
        store=store,
        remove=lambda uid: all(engine.forget(uid) for engine in engines),
        days_max=settings.finished_days_max,
    )
    measuring = Measuring(
        store=store,
        buckets=buckets_of(settings.data_dir).root,
        jobs=_jobs_dirs(settings, engines),
        uploads=uploads,
        project_bytes=project_bytes,
    )
    audit = AuditRetention(
        store=store, rows_max=settings.audit_rows_max, days_max=settings.audit_days_max
    )
    return Housekeeping(
        {
            "project disk usage": measuring.look,
            "old logs": retention.tidy,
            "old jobs": expiry.tidy,
            "clock check": ClockWatch(store.clock_skew_s).look,
            "last use of tokens": access.note_use,
            "sign-ins of browsers": sign_ins.tidy,
            "tokens for buckets": partial(bucket_tokens.forget_ended, store),
            "audit log": audit.tidy,
            "old samples of usage": UsageThinning(
                store=store, jobs_dirs=_jobs_dirs(settings, engines)
            ).tidy,
            "reserved disk space": store.keep_room,
            "states of GPUs": _make_gpu_watch(store, leads),
            "disk space": DiskWatch(settings.data_dir).look,
        }
    )


def make_learning(  # noqa: PLR0913, PLR0917 - the inputs of the chores
    store: Store,
    engines: Engines,
    catalog: Catalog,
    prices: PriceSource,
    plan_notes: PlanNotes,
    more: Mapping[str, Callable[[], None]],
) -> Housekeeping:
    chores: dict[str, Callable[[], object]] = {
        "learning from jobs": partial(
            _learn, store, engines, catalog, prices, CpuBudget(share=_LEARN_SHARE)
        ),
        "plan notes": plan_notes.write,
        **more,
    }
    return Housekeeping(chores, every_s=_LEARN_EVERY_S)


def make_accounts(store: Store, engines: Engines, prices: PriceSource) -> "JobAccounts":
    """Return what computes and stores what jobs used of their machines."""
    from trainshed.service.costs.job_accounts import JobAccounts  # noqa: PLC0415

    return JobAccounts(store=store, engines=engines, prices=prices)


def make_accounting(
    store: Store, read_accounts: Callable[[], "JobAccounts"], leads: Callable[[], bool]
) -> Callable[[], None]:
    """Return the chore that writes what jobs used of their machines."""

    def make() -> Callable[[], None]:
        from trainshed.service.costs.accounting import Accounting  # noqa: PLC0415

        return Accounting(
            store=store,
            accounts=read_accounts(),
            leads=leads,
            turns=CpuBudget(share=_LEARN_SHARE),
        ).account

    return _LazyChore(make, lambda: bool(store.changed_jobs(1) or store.holding()))


def _times_reader(store: Store, engines: Engines) -> Callable[[JobRecord], "JobTimes"]:
    """Return the function that reads the times of a job, with the steps of all its attempts."""
    from trainshed.service.goodput.facts import goodput_facts  # noqa: PLC0415
    from trainshed.service.goodput.live_steps import live_steps  # noqa: PLC0415

    return partial(goodput_facts, store, read_steps=live_steps(store, engines))


def _make_gpu_watch(store: Store, leads: Callable[[], bool]) -> Callable[[], None]:
    def make() -> Callable[[], None]:
        from trainshed.service.costs.gpu_watch import GpuWatch  # noqa: PLC0415

        return GpuWatch(store=store, leads=leads).look

    return _LazyChore(make)


class _LazyChore:
    """A chore whose modules are imported at its first run: they would delay the server's start."""

    def __init__(
        self, make: Callable[[], Callable[[], None]], is_needed: Callable[[], bool] = lambda: True
    ) -> None:
        """``is_needed`` is called before each turn until the chore has run once."""
        self._make = make
        self._is_needed = is_needed
        self._run: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self._run is None and self._is_needed():
            self._run = self._make()
        if self._run is not None:
            self._run()


def _learn(
    store: Store, engines: Engines, catalog: Catalog, prices: PriceSource, budget: CpuBudget
) -> None:
    if not budget.is_resting and store.unscored(1):
        # on many servers no job reports the durations of its steps
        from trainshed.service.learning.from_jobs import Learning  # noqa: PLC0415

        Learning(
            store=store,
            catalog=catalog,
            turns=budget,
            read_times=_times_reader(store, engines),
            prices=prices,
        ).learn()


def make_submit_notes(
    store: Store, catalog: Catalog, prices: PriceSource
) -> Callable[[SubmittedJob], None]:
    # needed only when a job is submitted
    from trainshed.service.learning.submit_notes import SubmitNotes  # noqa: PLC0415

    return SubmitNotes(store=store, catalog=catalog, prices=prices).look
