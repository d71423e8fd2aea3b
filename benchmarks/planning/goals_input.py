"""Goal G8 of docs/sources/planner.md 11: the throughput of jobs that read real data.

It is predicted from the throughput with synthetic data, which is generated in memory, and from
R_in, the samples/s that the input pipeline of one host delivers.
"""

from collections import defaultdict
from collections.abc import Sequence

from benchmarks.harness import at_least
from benchmarks.planning.frame import Line, Miss, Outcome, Row, Rows, errors_line
from trainshed.planning.scaling.input_bound import find_input_bound
from trainshed.planning.scaling.step import INPUT_OVERLAP, smooth_maximum

_SLOW = 0.9


def input_bound(_: Rows, tested: Rows) -> Outcome:
    """Predict every model from R_in, which is the throughput of the host's lightest model."""
    hosts: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for pair in tested["pair"]:
        hosts[pair["cpu"], pair.get("preprocessing", "")].append(pair)
    misses, plain, timed, foreseen = [], [], [], []
    for pairs in hosts.values():
        lightest = max(pairs, key=lambda pair: pair["synthetic"])
        rate = max(pair["real"] for pair in pairs if pair["model"] == lightest["model"])
        slower = [pair for pair in pairs if pair["model"] != lightest["model"]]
        misses += [_miss(pair, rate) for pair in slower]
        plain += [abs(min(pair["synthetic"], rate) / pair["real"] - 1) for pair in slower]
        timed += [(_is_seen(pair), _is_slow(pair)) for pair in pairs]
        foreseen += [(_is_foreseen(pair, rate), _is_slow(pair)) for pair in pairs]
    peers = {"plain minimum": plain}
    lines = [
        errors_line(
            "real data from synthetic and R_in", [m.error for m in misses], (1.9, 8.5), peers
        ),
        _detection("input-bound, from timed steps: recall, precision", timed, (0.95, 0.90)),
        _detection("input-bound, from R_in alone", foreseen, (None, None)),
    ]
    return Outcome(lines=lines, misses=misses)


def _miss(pair: Row, input_per_s: float) -> Miss:
    """Predict the rate with real data as a step of ``planning.scaling.step`` has it."""
    predicted = 1 / smooth_maximum(1 / pair["synthetic"], 1 / input_per_s, INPUT_OVERLAP)
    row = " ".join(pair.get(name, "") for name in ("cpu", "model", "strategy", "preprocessing"))
    return Miss(row=row, predicted=predicted, measured=pair["real"])


def _is_slow(pair: Row) -> bool:
    return bool(pair["real"] < _SLOW * pair["synthetic"])


def _is_seen(pair: Row) -> bool:
    """Return whether a calibration detects the wait from steps with real and with cached data."""
    return find_input_bound(1 / pair["real"], cached_step_s=1 / pair["synthetic"]) is not None


def _is_foreseen(pair: Row, input_per_s: float) -> bool:
    """Return whether a calibration detects the wait from the input's rate and cached data."""
    return find_input_bound(1 / pair["synthetic"], input_s=1 / input_per_s) is not None


def _detection(
    name: str, detections: Sequence[tuple[bool, bool]], goal: tuple[float | None, float | None]
) -> Line:
    """Compute recall and precision of pairs (detected, slow)."""
    right = sum(flagged and slow for flagged, slow in detections)
    recall = right / max(1, sum(slow for _, slow in detections))
    precision = right / max(1, sum(flagged for flagged, _ in detections))
    return Line(
        name=name,
        count=len(detections),
        goals=(
            at_least("recall", recall, goal[0], ""),
            at_least("precision", precision, goal[1], ""),
        ),
    )


GOALS = {"G8": input_bound}
