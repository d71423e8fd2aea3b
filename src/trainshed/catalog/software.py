"""Named software: AI Platform runtime versions and Vertex prebuilt images."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache

from trainshed.catalog.rows import rows

Version = tuple[int, ...]

#: From this day on, runtime versions up to BLOCKED_UP_TO may not train (runtimes.toml,
#: policy.blocked_for_training; rn2020).
BLOCKED_FROM = date(2020, 3, 17)
BLOCKED_UP_TO: Version = (1, 9)


def version(text: str) -> Version:
    """Return a version as a tuple without the parts that are not numbers: ``(2, 11)``."""
    return tuple(int(part) for part in re.findall(r"\d+", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeVersion:
    """One AI Platform runtime version."""

    version: str
    tensorflow: str
    python: tuple[str, ...]
    released: date | None
    """The first day for training; None if no source names it (2.2 and later)."""

    @property
    def default_python(self) -> str:
        """The default Python of a job: the oldest one (runtimes.toml, policy.python_default)."""
        return min(self.python, key=version)


@cache
def runtimes() -> Mapping[str, RuntimeVersion]:
    """Return all runtime versions, oldest first."""
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


@cache
def packages_of(runtime_version: str) -> tuple[str, ...]:
    """Return the packages in the image of a runtime version, except TensorFlow, in order.

    Empty for a name that is not a runtime version.
    """
    if runtime_version not in runtimes():
        return ()
    target = version(runtime_version)
    package_rows = rows("runtime_packages", "packages")
    return tuple(
        sorted(n for row in package_rows if version(row["since"]) <= target for n in row["names"])
    )


@cache
def all_packages() -> tuple[str, ...]:
    """Return the packages in the image of any runtime version."""
    return tuple(sorted({name for version in runtimes() for name in packages_of(version)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrebuiltImage:
    """The content of one of Google's prebuilt training images, by its name.

    ``framework`` is empty for an image that has none, and ``version`` if the name has none.
    """

    framework: str
    version: str
    accelerator: str
    python: str | None = None

    @property
    def content(self) -> str:
        """The content of the image, for a message: ``PyTorch 1.13 on Python 3.10``."""
        framework = " ".join(filter(None, [self.framework, self.version])) or "no framework"
        return f"{framework} on Python {self.python}" if self.python else framework


#: The words for frameworks in names of images; ``base`` images have none.
_FRAMEWORK = {
    "base": "",
    "tf": "TensorFlow",
    "tf2": "TensorFlow",
    "huggingface-pytorch-training": "PyTorch",
    "pytorch": "PyTorch",
    "sklearn": "scikit-learn",
    "scikit-learn": "scikit-learn",
    "xgboost": "XGBoost",
    "ray": "Ray",
}
#: The current repository and the earlier ones, on any host (vertex_images.toml, repository).
_REPOSITORY = (
    r"(?:^|/)(?:(?:vertex-ai|cloud-aiplatform|cloud-ml-public)/training"
    r"|deeplearning-platform-release(?:/gcr\.io)?)/"
)
_IMAGE = re.compile(
    _REPOSITORY + r"(?P<framework>[a-z0-9-]+?)-(?P<device>cpu|gpu|tpu|xla|cu\d+)"
    r"(?:\.(?P<version>\d+(?:-\d+)*))?(?:\.(?!py|cp)[a-z][a-z0-9-]*|\.\d+-\d+)*"
    r"(?:\.(?:py|cp)(?P<python>\d+))?(?:[:@].*)?$"
)
#: Other names of devices; ``cu121`` means a GPU too.
_DEVICE = {"xla": "cpu", "cpu": "cpu", "tpu": "tpu"}


def prebuilt_image(uri: str) -> PrebuiltImage | None:
    """Return the content of a prebuilt image by its URI; None for any other image.

    The version may be newer than the catalog's data.
    """
    match = _IMAGE.search(uri)
    if not match or match["framework"] not in _FRAMEWORK:
        return None
    python = match["python"]
    return PrebuiltImage(
        framework=_FRAMEWORK[match["framework"]],
        version=(match["version"] or "").replace("-", "."),
        accelerator=_DEVICE.get(match["device"], "gpu"),
        python=f"{python[0]}.{python[1:]}" if python else None,
    )


def is_reduction_server(uri: str) -> bool:
    """Whether an image is the Reduction Server, on any host and with any tag."""
    return re.search(r"(?:^|/)reductionserver(?:[:@].*)?$", uri) is not None
