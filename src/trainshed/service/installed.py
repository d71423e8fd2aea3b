"""What an interpreter has for a job: asked of the interpreter itself, once a process."""

import functools
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata

#: The distributions in which each framework may be installed.
DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "TensorFlow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
    "PyTorch": ("torch",),
    "scikit-learn": ("scikit-learn",),
    "XGBoost": ("xgboost", "xgboost-cpu"),
    "Ray": ("ray",),
}
#: The library that training programs may import.
TRAINER = "trainshed_trainer"
_ANSWER_S_MAX = 60.0

_SCRIPT = """
import json, sys
from importlib import metadata, util
found = {}
for name in sys.argv[2:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
has_trainer = util.find_spec(sys.argv[1]) is not None
version = list(sys.version_info[:2])
print(json.dumps({"python": version, "versions": found, "has_trainer": has_trainer}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What an interpreter has.  ``python`` is empty for one that does not answer."""

    python: str = ""
    frameworks: Mapping[str, str] = field(default_factory=dict)
    """Version by framework, in the catalog's names."""
    has_trainer: bool = False
    """Whether a program can import the trainer library."""


@functools.cache
def installed(python: str) -> Installed:
    """What is installed for an interpreter; our own is not started for it."""
    if python == sys.executable:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return Installed(
            python=version,
            frameworks=_frameworks(_own_versions()),
            has_trainer=importlib.util.find_spec(TRAINER) is not None,
        )
    try:
        answer = subprocess.run(  # noqa: S603  # an interpreter of the server's configuration
            [python, "-I", "-c", _SCRIPT, TRAINER, *_names()],
            capture_output=True,
            check=True,
            text=True,
            timeout=_ANSWER_S_MAX,
        )
        facts = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return Installed()
    major, minor = facts["python"]
    return Installed(
        python=f"{major}.{minor}",
        frameworks=_frameworks(facts["versions"]),
        has_trainer=facts["has_trainer"],
    )


def _own_versions() -> dict[str, str]:
    found = {}
    for name in _names():
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _names() -> list[str]:
    return [name for names in DISTRIBUTIONS.values() for name in names]


def _frameworks(versions: Mapping[str, str]) -> dict[str, str]:
    """The first distribution of each framework; ``2.13.0+cpu`` is version 2.13.0."""
    here = {
        framework: next((versions[name] for name in names if name in versions), "")
        for framework, names in DISTRIBUTIONS.items()
    }
    return {framework: text.partition("+")[0] for framework, text in here.items() if text}
