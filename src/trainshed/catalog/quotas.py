"""Default quotas: the amounts that a project may use at one time in a region."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from trainshed.catalog.editions import Product
from trainshed.catalog.rows import rows

_DEVICE_NAME = {
    "A100": "A100 40GB",
    "H100": "H100 80GB",
    "H100 Mega": "H100 80GB Mega",
    "H200": "H200 141GB",
}
_PREFIX = r"(?:Number of )?(?:concurrent )?"
_DEVICE = re.compile(_PREFIX + r"(?P<name>.+) GPUs for training$")
#: TPU quotas by the TPU's name in regions.toml; the last word is the unit.
_TPUS = {
    "TPU V2 cores": "TPU v2",
    "TPU V2 pod cores": "TPU v2 Pod",
    "TPU V3 cores": "TPU v3",
    "TPU V3 pod cores": "TPU v3 Pod",
    "TPU7x chips": "TPU7x",
}
_TPU = re.compile(_PREFIX + r"(?P<name>TPU.+) for training$")
_FAMILIES = re.compile(_PREFIX + r"(?P<names>.+) CPUs for training$")


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultQuota:
    """One limit.  ``by_region`` is None for a limit on the whole project."""

    title: str
    by_region: Mapping[str, float] | None = None
    value: float | None = None

    def limit(self, region: str | None) -> float | None:
        """Return the most that may be used in a region; 0 if none may, None if unknown."""
        if self.by_region is None:
            return self.value
        return self.by_region.get(region or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultQuotas:
    """All limits of a product: by accelerator's catalog name, TPU, and machine family."""

    devices: Mapping[str, DefaultQuota]
    tpus: Mapping[str, DefaultQuota]
    families: Mapping[str, DefaultQuota]


@cache
def quotas_of(product: Product) -> DefaultQuotas:
    """Return the default quotas of a product (quotas.toml)."""
    return _vertex() if product is Product.VERTEX else _ml()


def _vertex() -> DefaultQuotas:
    devices: dict[str, DefaultQuota] = {}
    tpus: dict[str, DefaultQuota] = {}
    families: dict[str, DefaultQuota] = {}
    for row in rows("quotas", "vertex_quota"):
        limits = dict.fromkeys(row.get("not_available", ()), 0.0) | row["default_by_region"]
        limits |= dict.fromkeys(row.get("other", {}), float("inf"))
        quota = DefaultQuota(title=row["quota"], by_region=limits)
        if match := _DEVICE.match(row["quota"]):
            devices[_DEVICE_NAME.get(match["name"], match["name"])] = quota
        elif match := _TPU.match(row["quota"]):
            tpus[_TPUS[match["name"]]] = quota
        elif match := _FAMILIES.match(row["quota"]):
            families |= {name.lower(): quota for name in match["names"].split(" and ")}
    return DefaultQuotas(devices=devices, tpus=tpus, families=families)


def _ml() -> DefaultQuotas:
    devices = {}
    for row in rows("quotas", "ml_quota"):
        if match := _DEVICE.match(row["quota"]):
            devices[match["name"]] = DefaultQuota(title=row["quota"], value=row["value"])
    return DefaultQuotas(devices=devices, tpus={}, families={})
