"""What reducers are worth to a job, in numbers and in a sentence.

Whoever reads that reducers are too few also reads what the right number would gain, and whoever
cannot gain at all hears that.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from trainshed.model.job import JobSpec
from trainshed.model.roles import Role
from trainshed.planning.sizing import WORKERS_MIN, Hosts, ReducerOption, ReducerPlan, plan

#: Google advises buckets of this size (reduction_server.toml, tuning); gains do not depend on it.
GRADIENT_BYTES: Final = 64e6

ONE_MACHINE: Final = (
    "Workers and reducers are on one machine: what they exchange crosses no network, and there "
    "reducers are never faster than a ring."
)


@dataclass(frozen=True, kw_only=True)
class ReductionForecast:
    """What is predicted for a job that asks for reducers."""

    hosts: Hosts
    reducers: int
    machine_type: str = ""
    """Of the reducers; empty where only their links are known."""

    @cached_property
    def plan(self) -> ReducerPlan:
        """The asked number among others."""
        return plan(self.hosts, self.reducers, GRADIENT_BYTES)

    @property
    def requested(self) -> ReducerOption:
        """What was asked for."""
        return next(option for option in self.plan.options if option.reducers == self.reducers)

    @property
    def is_short(self) -> bool:
        """Whether the reducers' links carry less than the workers' do."""
        return self.reducers < self.hosts.sufficient

    @property
    def is_warning(self) -> bool:
        """Whether the job would better ask for something else."""
        return self.is_short or not self.hosts.helps

    @property
    def sentence(self) -> str:
        """Both sides' bandwidth, what would suffice, and what is gained; without a full stop."""
        many = self.reducers != 1
        of_type = f" of {self.machine_type}" if self.machine_type else ""
        text = (
            f"{self.reducers} reducer{'s' if many else ''}{of_type} "
            f"{'carry' if many else 'carries'} {self.requested.total_gbps:g} Gbit/s, "
            f"the workers {self.hosts.total_gbps:g}"
        )
        if self.is_short and self.hosts.helps:
            text += f": {self.plan.sufficient.reducers} would match them"
        return text + self._gain()

    def _gain(self) -> str:
        if self.hosts.workers == 1:
            return "; a single worker host exchanges gradients with nobody: reducers never help it"
        if not self.hosts.helps:
            least = WORKERS_MIN
            return f"; two worker hosts exchange as fast by a ring: reducers help from {least} on"
        if not self.is_short:
            return f": the exchange is predicted at {self.requested.gain:.2f} times a ring"
        enough = self.plan.sufficient
        return (
            f"; with {self.reducers} the exchange is predicted at {self.requested.gain:.2f} times "
            f"a ring, with {enough.reducers} at {enough.gain:.2f}"
        )

    @property
    def numbers(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "gain": round(self.requested.gain, 3),
            "reducers": self.reducers,
            "sufficient": self.plan.sufficient.reducers,
        }


def advice_here(spec: JobSpec, forecast: ReductionForecast | None) -> tuple[str, ...]:
    """What is said to a job with reducers that runs on one machine, a sentence each."""
    if spec.group(Role.REDUCER) is None:
        return ()
    return (*((f"{forecast.sentence}.",) if forecast and forecast.is_warning else ()), ONE_MACHINE)
