"""Compares the achieved gain of a job's reducers with two predictions.

The first uses the links that the workers measured, and shows how well they were used.  The second
uses the catalog's machines: it was reported at submit, and may assume other links.
"""

from dataclasses import dataclass

from trainshed.model.reduction_report import ReductionReport
from trainshed.model.texts import count_noun, format_decimal_size
from trainshed.planning.exchange import Links, gain

#: Predictions that differ by less are reported once.
SAME = 0.05
#: The error of a measured link rate, as a factor.
MEASURED_WITHIN = 1.1
#: The slowest possible link, Mbit/s; a lower value was not measured.
RATE_MIN = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Achieved:
    """Gains are multiples of a ring on the same links; None without a comparison."""

    report: ReductionReport
    gain: float | None
    predicted: float | None
    """The gain that the model predicts for the links that the workers measured."""
    planned: float | None
    """The gain that was predicted at submit for the catalog's machines."""

    @property
    def sentence(self) -> str:
        """The comparison in one line, for a job's summary."""
        report = self.report
        reducers = count_noun(report.reducers, "reducer")
        rounds = count_noun(report.rounds, "round")
        counted = f"({reducers}, {rounds}, {format_decimal_size(report.size_bytes)})"
        return f"Reduction: {self._compared()} {counted}{self._by_the_catalog()}."

    def _compared(self) -> str:
        if not self.report.rounds:
            return "nothing went through the reducers"
        if self.gain is None:
            return f"{self.report.goodput_mbps:.0f} Mbit/s, and no ring to compare with"
        predicted = "" if self.predicted is None else f"; predicted {self.predicted:.2f}"
        links = "of links that were measured too slow" if self.is_beyond else "of the same links"
        return f"{self.gain:.2f} times a ring {links}{predicted}"

    @property
    def is_beyond(self) -> bool:
        """Whether the gain is impossible, so that the links must be faster than measured."""
        gain_max = 2 * (self.report.world - 1) / max(1, self.report.world)
        return self.gain is not None and self.gain > gain_max * MEASURED_WITHIN

    def _by_the_catalog(self) -> str:
        if self.planned is None:
            return ""
        if self.predicted is not None and abs(self.planned - self.predicted) < SAME:
            return ""
        return f"; predicted for the catalog's machines: {self.planned:.2f}"

    @property
    def numbers(self) -> dict[str, object]:
        """The comparison as numbers."""
        return {
            "gain": _rounded(self.gain),
            "predicted": _rounded(self.predicted),
            "planned": _rounded(self.planned),
            "workers": self.report.world,
            "reducers": self.report.reducers,
            "rounds": self.report.rounds,
            "bytes": self.report.size_bytes,
            "seconds": round(self.report.seconds, 3),
            "goodput_mbps": round(self.report.goodput_mbps, 1),
        }


def achieved(report: ReductionReport, planned: float | None = None) -> Achieved:
    """Compare a report with the model; ``planned`` is the gain predicted at submit, or None."""
    compares = report.rounds > 0 and report.ring_mbps >= RATE_MIN
    return Achieved(
        report=report,
        gain=report.goodput_mbps / report.ring_mbps if compares else None,
        predicted=_predicted(report),
        planned=planned,
    )


def _predicted(report: ReductionReport) -> float | None:
    rates = (report.worker_link_mbps, *report.reducer_link_mbps)
    if report.world < 1 or min(rates) < RATE_MIN:
        return None
    return gain(
        Links(
            workers=report.world,
            worker_gbps=report.worker_link_mbps,  # only the proportion counts
            reducers_gbps=sum(report.reducer_link_mbps),
        )
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
