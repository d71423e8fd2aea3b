"""The store on a SQL database: its parts in one object."""

import contextlib
from datetime import datetime

from trainshed.store import codec
from trainshed.store.database import Database
from trainshed.store.fleet import Fleet
from trainshed.store.forgetting import Forgetting
from trainshed.store.grants import Grants
from trainshed.store.jobs import Jobs
from trainshed.store.leases import Leases
from trainshed.store.pipelines import Pipelines
from trainshed.store.places import Places
from trainshed.store.steady_clock import SteadyClock
from trainshed.store.steps import Steps
from trainshed.store.story import Story
from trainshed.store.studies import Studies
from trainshed.store.work import Work


class SqlStore(
    Jobs, Steps, Story, Studies, Work, Leases, Fleet, Forgetting, Pipelines, Places, Grants
):
    """All of ``store.base.StoreBase``."""

    def __init__(self, db: Database, held: contextlib.ExitStack) -> None:
        """Serve a database whose tables are there; ``held`` is let go of at the end."""
        self._db = db
        self._held = held
        self._known_buckets = {}

    def now(self) -> datetime:
        """The store's time."""
        return codec.to_time(self._db.clock())

    def clock_skew_s(self) -> float:
        """How far the wall clock is ahead of the store's time, in seconds."""
        clock = self._db.clock
        return clock.skew_s() if isinstance(clock, SteadyClock) else 0.0

    def close(self) -> None:
        """Finish what was begun, then let go of the database."""
        self._db.close()
        self._held.close()
