"""Reserves the start of the first job that waits for room, and backfills jobs beside it.

This is EASY backfill.  Every running job has a latest end.  So the planner can compute the earliest
time at which the waiting job certainly fits.  It reserves the job's seats at that time.  A later
job may start at once if it ends before that time, or if it needs none of the reserved seats.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainshed.model.resources import JobDemand, Seat
from trainshed.placement.fleet import FleetUsage
from trainshed.placement.gang import place, place_at
from trainshed.placement.jobs import QueuedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A job's start at ``start_s`` at the latest, on these seats.

    ``passed_over`` are the older jobs of its priority that waited for a quota or a drained node
    when the reservation was granted.  They may not replace it when they later wait for room.
    """

    job: QueuedJob
    start_s: float
    seats: tuple[Seat, ...]
    passed_over: frozenset[int] = frozenset()


def reserve(
    fleet: FleetUsage,
    job: QueuedJob,
    ends: Sequence[tuple[float, int]],
    now_s: float,
    before: Reservation | None = None,
) -> tuple[Reservation, FleetUsage] | None:
    """Return the earliest certain start of a job, and the fleet at that time with the job on it.

    ``ends`` are (latest end, uid) of every job on the fleet, ascending.  ``before`` is the job's
    earlier reservation: the new start is never later.  Return None if the job does not fit even
    after all others have ended.
    """
    forecast = _Forecast(fleet.copy(candidates=False), ends)
    search = _StartSearch(forecast, job, before)
    last = len(forecast.times)
    most = last if before is None else forecast.step_of(before.start_s)
    if not search.fits(most):
        most = last
        if not search.fits(most):
            return None
    seats = search.earliest(most)
    start_s = max(now_s, forecast.times[forecast.step - 1] if forecast.step else now_s)
    return Reservation(job=job, start_s=start_s, seats=seats), forecast.fleet


class _Forecast:
    """A fleet that can be moved forward and back over the ends of its jobs.

    ``step`` is the number of end times that have passed.
    """

    def __init__(self, fleet: FleetUsage, ends: Sequence[tuple[float, int]]) -> None:
        self.fleet = fleet
        self.step = 0
        self._ending: list[list[int]] = []
        self.times: list[float] = []
        self._taken = {}
        for end_s, uid in ends:
            self._taken[uid] = fleet.taken(uid)
            if not self.times or end_s > self.times[-1]:
                self.times.append(end_s)
                self._ending.append([])
            self._ending[-1].append(uid)

    def step_of(self, time_s: float) -> int:
        return sum(end_s <= time_s for end_s in self.times)

    def move(self, step: int) -> None:
        while self.step < step:
            for uid in self._ending[self.step]:
                self.fleet.release(uid)
            self.step += 1
        while self.step > step:
            self.step -= 1
            for uid in self._ending[self.step]:
                self.fleet.take_same(uid, self._taken[uid])


class _StartSearch:
    """Finds the earliest step at which a job fits, and leaves the job on the fleet."""

    def __init__(self, forecast: _Forecast, job: QueuedJob, before: Reservation | None) -> None:
        self._forecast = forecast
        self._job = job
        same = before is not None and before.job.demand == job.demand
        self._before = before.seats if before and same else ()

    def earliest(self, most: int) -> tuple[Seat, ...]:
        """Return the seats at the earliest step up to ``most`` at which the job fits.

        Room only grows from step to step, so a binary search finds the step.
        """
        least = 0
        while least < most:
            middle = (least + most) // 2
            if self.fits(middle):
                most = middle
            else:
                least = middle + 1
        self._forecast.move(most)
        seats = self._seats()
        assert seats is not None, "the search found a step at which it fits"  # noqa: S101 - internal check
        return seats

    def fits(self, step: int) -> bool:
        self._forecast.move(step)
        has_seats = self._seats() is not None
        self._forecast.fleet.release(self._job.uid)
        return has_seats

    def _seats(self) -> tuple[Seat, ...] | None:
        """Return new seats, or the reserved ones if packing finds none."""
        fleet, job = self._forecast.fleet, self._job
        seats = place(fleet, job.uid, job.demand)
        if seats is None and self._before and place_at(fleet, job.uid, job.demand, self._before):
            seats = self._before
        return seats


class Backfill:
    """Places jobs that do not delay a reservation.

    ``current`` is the fleet of the pass, ``future`` the fleet at the reserved start with the job
    on it.  A job that ends after the reserved start must fit on both, so each node has the smaller
    room of the two.
    """

    def __init__(self, current: FleetUsage, future: FleetUsage, start_s: float) -> None:
        """Compute the room for jobs that end after the reserved start, ``start_s``."""
        self._current = current
        self._future = future
        self._start_s = start_s
        self._both = current.copy()
        self._refresh(range(len(current.rooms)))

    def in_time(self, end_s: float) -> bool:
        """Whether a job with this latest end ends before the reserved start."""
        return end_s <= self._start_s

    def place(self, uid: int, demand: JobDemand, end_s: float) -> tuple[Seat, ...] | None:
        """Take seats for a job without delaying the reserved start; None if impossible."""
        if self.in_time(end_s):
            seats = place(self._current, uid, demand)
            self._refresh({node for node, _, _ in self._current.taken(uid)})
            return seats
        seats = place(self._both, uid, demand)
        if seats is not None:
            taken = self._both.taken(uid)
            self._both.release(uid)
            self._current.take_same(uid, taken)
            self._future.take_same(uid, taken)
            self._refresh({node for node, _, _ in taken})
        return seats

    def release(self, uid: int) -> None:
        """Undo ``place``."""
        touched = {node for node, _, _ in self._current.taken(uid)}
        self._current.release(uid)
        self._future.release(uid)
        self._refresh(touched)

    def _refresh(self, nodes: Sequence[int] | set[int] | range) -> None:
        current, future = self._current.rooms, self._future.rooms
        for node in nodes:
            room = list(map(min, current[node], future[node]))
            if room != self._both.rooms[node]:
                self._both.set_room(node, room)
