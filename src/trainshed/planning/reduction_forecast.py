"""Predicts the gain of a job's reducers, in numbers and in a sentence.

The sentence names the right number of reducers if there are too few, and says if reducers cannot
help.
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
    "Workers and reducers are on one machine: their data crosses no network, and "
    "reducers are then never faster than a ring."
)


@dataclass(frozen=True, kw_only=True)
class ReductionForecast:
    """The prediction for a job with reducers."""

    hosts: Hosts
    reducers: int
    machine_type: str = ""
    """The reducers' machine type; empty if only their links are known."""
    links_assumed: bool = False
    """Whether the links are those of Google's machine types, and the hosts may have others."""

    @cached_property
    def plan(self) -> ReducerPlan:
        """The plan for the requested number of reducers and for other numbers."""
        return plan(self.hosts, self.reducers, GRADIENT_BYTES)

    @property
    def requested(self) -> ReducerOption:
        """The option with the requested number of reducers."""
        return next(option for option in self.plan.options if option.reducers == self.reducers)

    @property
    def is_short(self) -> bool:
        """Whether the reducers' links carry less than the workers' do."""
        return self.reducers < self.hosts.sufficient

    @property
    def is_warning(self) -> bool:
        """Whether another number of reducers would be better."""
        return self.is_short or not self.hosts.helps

    @property
    def sentence(self) -> str:
        """The bandwidths, the sufficient number, the gain, and the condition; no full stop."""
        is_plural = self.reducers != 1
        of_type = f" of {self.machine_type}" if self.machine_type else ""
        text = (
            f"{self.reducers} reducer{'s' if is_plural else ''}{of_type} "
            f"{'carry' if is_plural else 'carries'} {self.requested.total_gbps:g} Gbit/s, "
            f"the workers {self.hosts.total_gbps:g}"
        )
        if self.is_short and self.hosts.helps:
            text += f": {self.plan.sufficient.reducers} would match them"
        is_conditional = self.links_assumed and self.hosts.helps
        condition = ", if the hosts have the network of the catalog" if is_conditional else ""
        return f"{text}{self._gain()}{condition}"

    def _gain(self) -> str:
        if self.hosts.workers == 1:
            return "; a single worker host exchanges no gradients: reducers cannot help it"
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
        """The prediction as numbers."""
        return {
            "gain": round(self.requested.gain, 3),
            "reducers": self.reducers,
            "sufficient": self.plan.sufficient.reducers,
        }


def one_machine_advice(spec: JobSpec, forecast: ReductionForecast | None) -> tuple[str, ...]:
    """Return the sentences for a job with reducers on one machine."""
    if spec.group(Role.REDUCER) is None:
        return ()
    return (*((f"{forecast.sentence}.",) if forecast and forecast.is_warning else ()), ONE_MACHINE)
