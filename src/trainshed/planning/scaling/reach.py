"""How sure a prediction is: the kind of question that it answers, and the errors seen for that."""

from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import Cluster
from trainshed.planning.scaling.fitting import timed
from trainshed.planning.scaling.interval import Interval

_MEASURED = (0.97, 1.03)
_FACTORS = {
    "hosts from hosts": (0.96, 1.06),
    "hosts from one host": (0.95, 1.4),
    "hosts from one accelerator": (0.95, 1.8),
    "host": (0.92, 1.43),
}


def factors(calibration: Calibration, cluster: Cluster, batch: float) -> Interval:
    """Between which factors of the predicted time the measured one lies in 80 of 100 cases."""
    low, high = _FACTORS[_question(calibration, cluster)]
    if _measured(calibration, cluster, batch):
        low, high = _MEASURED
    return Interval(low=low, point=1.0, high=high)


def _question(calibration: Calibration, cluster: Cluster) -> str:
    runs = timed(calibration.runs)
    if cluster.hosts == 1:
        return "host"
    if any(run.hosts > 1 for run in runs):
        return "hosts from hosts"
    whole = any(run.accelerators >= cluster.per_host for run in runs)
    return "hosts from one host" if whole else "hosts from one accelerator"


def _measured(calibration: Calibration, cluster: Cluster, batch: float) -> bool:
    usual = calibration.training.batch_per_accelerator
    asked = (cluster.accelerators, cluster.hosts, batch)
    return asked in {
        (run.accelerators, run.hosts, run.batch_per_accelerator or usual)
        for run in timed(calibration.runs)
    }
