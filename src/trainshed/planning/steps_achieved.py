"""Statistics of an attempt's steps, for its job's events and for calibrations."""

from dataclasses import dataclass
from typing import Final

from trainshed.model.step_times import StepTimes
from trainshed.planning.scaling.input_bound import WAITS
from trainshed.planning.scaling.step_statistics import StepStatistics, summarize_times

#: The fewest steps for statistics.
STEPS_MIN: Final = 10
#: The figures that events pass on as the trainer reported them.
_AS_REPORTED: Final = (
    *("stack", "parameters", "largest", "gradient_bytes", "micro_batches", "state_bytes"),
    *("host_bytes", "device_bytes"),
)
WHAT_HELPS: Final = "more loader workers, cached data or more hosts would help"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsAchieved:
    """The steps of the primary replica."""

    times: StepTimes
    statistics: StepStatistics

    @property
    def samples_per_s(self) -> float:
        """The rate of this replica; 0 if samples were not counted."""
        return self.times.samples / max(1, self.times.steps) / self.statistics.step_s

    @property
    def is_input_bound(self) -> bool:
        """Whether its steps wait for their input."""
        return self.statistics.wait_share >= WAITS

    @property
    def sentence(self) -> str:
        """The statistics in one line, for a job's summary."""
        statistics = self.statistics
        spread = (
            f"{_ms(statistics.step_s)} ms each ({_ms(statistics.p10_s)} to {_ms(statistics.p90_s)})"
        )
        text = f"Steps: {self.times.steps:,}, {spread}"
        if self.samples_per_s:
            text += f", {_rate(self.samples_per_s)} samples/s a replica"
        if self.is_input_bound:
            text += (
                f"; bound by input, {100 * statistics.wait_share:.0f} % of their time: {WHAT_HELPS}"
            )
        return f"{text}."

    @property
    def numbers(self) -> dict[str, object]:
        """The statistics as numbers."""
        return {
            "steps": self.times.steps,
            "step_s": _rounded(self.statistics.step_s),
            "step_s_p10": _rounded(self.statistics.p10_s),
            "step_s_p90": _rounded(self.statistics.p90_s),
            "samples_per_s": _rounded(self.samples_per_s),
            "wait_share": _rounded(self.statistics.wait_share),
            **{name: getattr(self.times, name) for name in _AS_REPORTED},
        }


def steps_achieved(times: StepTimes) -> StepsAchieved | None:
    """Return the statistics of a report; None with too few steps."""
    statistics = summarize_times(times)
    if statistics is None or times.steps < STEPS_MIN:
        return None
    return StepsAchieved(times=times, statistics=statistics)


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g}"


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
