"""Named software: AI Platform runtime versions and Vertex prebuilt images (R25)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache

from trainshed.catalog.rows import rows

Version = tuple[int, ...]

#: From 2020-03-17 on these may not train (runtimes.toml, policy.blocked_for_training; rn2020).
BLOCKED_FROM = date(2020, 3, 17)
BLOCKED_UP_TO: Version = (1, 9)


def version(text: str) -> Version:
    """``"2.11"`` as ``(2, 11)``; parts that are not numbers are left out."""
    return tuple(int(part) for part in re.findall(r"\d+", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeVersion:
    """One AI Platform runtime version."""

    version: str
    tensorflow: str
    python: tuple[str, ...]
    released: date | None
    """First day for training; None where no source prints it (2.2 and later)."""

    @property
    def default_python(self) -> str:
        """What a job that names none got: the oldest (runtimes.toml, policy.python_default)."""
        return min(self.python, key=version)


@cache
def runtimes() -> Mapping[str, RuntimeVersion]:
    """All runtime versions, oldest first."""
    return {
        row["version"]: RuntimeVersion(
            version=row["version"],
            tensorflow=row["tensorflow"],
            python=tuple(row["python"]),
            released=date.fromisoformat(row["training_release"])
            if "training_release" in row
            else None,
        )
        for row in rows("runtimes", "runtime")
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PrebuiltImage:
    """What the name of one of Google's prebuilt training images says about its content."""

    framework: str
    version: str
    accelerator: str
    python: str | None = None


_FRAMEWORK = {
    "tf": "TensorFlow",
    "pytorch": "PyTorch",
    "sklearn": "scikit-learn",
    "scikit-learn": "scikit-learn",
    "xgboost": "XGBoost",
    "ray": "Ray",
}
_IMAGE = re.compile(
    r"(?:^|/)vertex-ai/training/(?P<framework>[a-z-]+?)-(?P<device>cpu|gpu|tpu|xla)"
    r"\.(?P<version>\d+(?:-\d+)*)(?:\.(?:py|cp)(?P<python>\d+))?(?::.*)?$"
)


def prebuilt_image(uri: str) -> PrebuiltImage | None:
    """Reads a prebuilt image's URI, also of versions newer than the data; None for any other."""
    match = _IMAGE.search(uri)
    if not match or match["framework"] not in _FRAMEWORK:
        return None
    python = match["python"]
    return PrebuiltImage(
        framework=_FRAMEWORK[match["framework"]],
        version=match["version"].replace("-", "."),
        accelerator="cpu" if match["device"] == "xla" else match["device"],
        python=f"{python[0]}.{python[1:]}" if python else None,
    )


def is_reduction_server(uri: str) -> bool:
    """Whether an image is the Reduction Server, whatever its host and tag (R16)."""
    return re.search(r"(?:^|/)reductionserver(?:[:@].*)?$", uri) is not None
