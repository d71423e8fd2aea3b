"""Predicts a job on hosts of several kinds: in each step all accelerators wait for the slowest.

The batch of an accelerator is equal on all hosts.  The prediction also says with which batches,
in proportion to their speed, the hosts would take equally long.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.prediction import NoPrediction, Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShare:
    """The hosts of one kind, and the step that the job would take if all its hosts were such."""

    host: HostKind
    accelerators: int
    answer: Prediction | NoPrediction


def predict_mixed(cluster: Cluster, shares: Sequence[HostShare]) -> Prediction | NoPrediction:
    """Return the prediction of the slowest kind, for the accelerators of all kinds."""
    predicted: list[tuple[HostShare, Prediction]] = []
    for share in shares:
        if isinstance(share.answer, NoPrediction):
            return _refuse(shares, share.answer)
        predicted.append((share, share.answer))
    slow, slowest = max(predicted, key=lambda pair: pair[1].step_s.point)
    return replace(
        slowest,
        cluster=replace(cluster, host=slow.host),
        warnings=(_advise(predicted, slow.host, slowest.batch_per_accelerator), *slowest.warnings),
    )


def _advise(
    predicted: Sequence[tuple[HostShare, Prediction]], slowest: HostKind, batch: float
) -> str:
    """Say for which hosts a step waits, and the batches with which no host would wait."""
    total = sum(share.accelerators for share, _ in predicted)
    rates = [share.accelerators / prediction.step_s.point for share, prediction in predicted]
    per_second = total * batch / sum(rates)
    batches = " and ".join(
        f"{max(1, round(per_second / prediction.step_s.point))} on {share.host.machine}"
        for share, prediction in predicted
    )
    return (
        f"each step waits for {slowest.machine}; with samples in proportion to their speed, "
        f"{batches}, all hosts take about equally long"
    )


def _refuse(shares: Sequence[HostShare], answer: NoPrediction) -> NoPrediction:
    names = " and ".join(share.host.machine for share in shares)
    return replace(
        answer,
        message=f"the training hosts differ ({names}), and {answer.message}",
        accepted=f"{answer.accepted}; or equal hosts: one machine type and accelerator for all",
    )
