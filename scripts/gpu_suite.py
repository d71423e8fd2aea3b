"""``make test-gpu``: proves on this machine's GPU all that touches one, within ten minutes.

Nothing is fetched.  It runs in ``.venv-gpu``, which sees all packages of the Python that it was
started with; what that lacks is taken from wheels in a folder.  The tests of ``tests/gpu`` come
first, then the figures of ``benchmarks/gpu``; both are cut off when their time is over, and say
what was not run.

    python scripts/gpu_suite.py [--wheels FOLDER] [--out FOLDER] [--seconds N] [--only WORDS]
"""

import argparse
import ctypes
import importlib.metadata
import json
import os
import subprocess
import sys
import time
import venv
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
VENV: Final = ROOT / ".venv-gpu"
PATHS: Final = ("src", "trainer/src")
COMMANDS: Final = {
    "trainshed": "trainshed.cli.main",
    "trainshed-reducer": "trainshed.reduction.main",
}
COMMAND: Final = "#!{python}\nimport sys\nfrom {module} import main\nsys.exit(main())\n"

#: Imported by the server and by the tests; without one of them only programs run.
NEEDED: Final = (
    *("sqlalchemy", "alembic", "fastapi", "pydantic", "uvicorn", "httptools", "uvloop", "yaml"),
    *("cryptography", "jwt", "google_crc32c", "grpc", "google.protobuf", "prometheus_client"),
    *("optuna", "scipy", "numpy", "threadpoolctl", "pynvml"),
    *("pytest", "pytest_timeout", "hypothesis", "psutil"),
)
#: What is tested where it is there.
FRAMEWORKS: Final = ("torch", "tensorflow", "jax", "cupy", "matplotlib", "sklearn")
SMI: Final = ("--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
ON: Final = " on "
TORCH: Final = (
    "import torch; name = torch.cuda.is_available() and torch.cuda.get_device_name()\n"
    f"print(torch.__version__ + (f'{ON}{{name}}' if name else ' without CUDA'))"
)
MISSING: Final = """
import importlib.util, sys
for name in sys.argv[1:]:
    try:
        found = importlib.util.find_spec(name)
    except ImportError:
        found = None
    if found is None:
        print(name)
"""
#: The rest of the time is for the figures.
TESTS_SHARE: Final = 0.55
OVERTIME_S: Final = 30.0
NAME: Final = "gpu-tests.json"
FIRST: Final = ("devices", "jobs", "faults", "frameworks", "reduction", "examples", "gpu_check")
#: Of this command and of the figures, without a GPU.
REHEARSALS: Final = ("suite", "figures")


def main() -> int:
    """Run both; 0 where nothing failed, also where there is no GPU."""
    args = _parser().parse_args()
    args.out = args.out.resolve()
    if why := no_gpu():
        print(f"skipped: {why}")
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    until = time.time() + args.seconds
    python = _made_venv(args.venv)
    there = _what_is_there(python, args.wheels, _installed(python, args.wheels))
    if lacking := [name for name in there["missing"] if name in NEEDED]:
        print(f"nothing can be run without {', '.join(lacking)}: give wheels in GPU_WHEELS")
        return 1
    code = _tests(python, args, time.time() + TESTS_SHARE * args.seconds)
    report = _report(args.out, there)
    if not args.only:
        figures_code = _figures(python, args.out, max(1, int(until - time.time())))
        code = code or (figures_code if ON in there["torch"] else 0)
        if ON not in there["torch"]:
            print("no figures: there is no torch that can use CUDA")
    _print(report, args.out)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheels", type=Path, help="a folder of wheels for what is missing")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu", help="for reports")
    parser.add_argument("--venv", type=Path, default=VENV, help="the folder that is made anew")
    parser.add_argument("--seconds", type=float, default=540.0, help="for all of it")
    parser.add_argument("--only", help="tests whose names have these words (pytest -k); no figures")
    return parser


def no_gpu() -> str:
    """Why there is nothing to run; empty where there is a GPU."""
    try:
        driver = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return f"this machine has no driver of NVIDIA ({error})"
    count = ctypes.c_uint()
    code = driver.nvmlInit_v2() or driver.nvmlDeviceGetCount_v2(ctypes.byref(count))
    if code:
        return f"the driver of NVIDIA does not work: NVML error {code}"
    return "" if count.value else "the driver of NVIDIA knows no GPU"


def _made_venv(folder: Path) -> Path:
    """A Python that sees this one's packages; where this one is a venv, that one's."""
    venv.create(folder, clear=True, symlinks=True)
    python = folder / "bin" / "python"
    own = [str(ROOT / path) for path in PATHS]
    beside = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    lines = [*own, *(f"import site; site.addsitedir({path!r})" for path in beside)]
    (_site(python) / "gpu.pth").write_text("".join(f"{line}\n" for line in lines))
    for name, module in COMMANDS.items():
        path = python.with_name(name)
        path.write_text(COMMAND.format(python=python, module=module))
        path.chmod(0o755)
    return python


def _site(python: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return python.parent.parent / "lib" / version / "site-packages"


def _installed(python: Path, wheels: Path | None) -> list[str]:
    """The wheels of what this Python lacks, by name.  What it has stays as it is."""
    wheel_paths = sorted(wheels.glob("*.whl")) if wheels else []
    lacking = [path for path in wheel_paths if not _has(path.name.split("-")[0])]
    if lacking:
        target = str(_site(python))
        words = ("--quiet", "--no-index", "--no-deps", "--no-compile", "--target", target)
        argv = (sys.executable, "-m", "pip", "install", *words, *map(str, lacking))
        subprocess.run(argv, check=True)
    return [path.name.split("-")[0] for path in lacking]


def _has(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _what_is_there(python: Path, wheels: Path | None, installed: Sequence[str]) -> dict[str, Any]:
    """What the suite runs with, said and returned."""
    there = {
        "gpu": _output("nvidia-smi", *SMI).strip() or "unknown",
        "python": sys.version.split()[0],
        "torch": _output(python, "-c", TORCH).strip() or "none",
        "wheels": list(installed),
        "missing": _output(python, "-c", MISSING, *NEEDED, *FRAMEWORKS).split(),
    }
    print(f"{there['gpu']}; Python {there['python']}; torch {there['torch']}")
    print(f"from {wheels or 'no folder of wheels'}: {', '.join(installed) or 'nothing'}")
    print(f"missing: {', '.join(there['missing']) or 'nothing'}", flush=True)
    return there


def _tests(python: Path, args: argparse.Namespace, until: float) -> int:
    """Run them one after another: there is one GPU."""
    (args.out / NAME).unlink(missing_ok=True)
    env = {
        **os.environ,
        "TRAINSHED_GPU": "real",
        "TRAINSHED_GPU_REPORT": str(args.out / NAME),
        "TRAINSHED_GPU_UNTIL": str(until),
        "TRAINSHED_CHAOS": "full",
        "PYTHONWARNINGS": "default",
    }
    words = ["-q", "-o", "addopts=--import-mode=importlib", "-o", "filterwarnings=default"]
    words += ["-k", args.only] if args.only else []
    argv = (str(python), "-m", "pytest", *_files(), *words)
    try:
        # each test has a bound; this one is for what even that does not end
        seconds = until - time.time() + OVERTIME_S
        code = subprocess.run(argv, cwd=ROOT, env=env, check=False, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        print("the tests took too long and were ended")
        code = 1
    return int(code not in {0, 5})


def _files() -> list[str]:
    """In order of value; what makes other processes use the GPU comes after the server's tests."""
    paths = {path.stem.removeprefix("test_"): path for path in (ROOT / "tests/gpu").glob("test_*")}
    names = [*FIRST, *sorted(paths.keys() - {*FIRST, *REHEARSALS})]
    return [str(paths[name]) for name in names]


def _figures(python: Path, out: Path, seconds: int) -> int:
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    argv = (python, "-m", "benchmarks", "gpu", "--out", out, "--seconds", str(seconds))
    try:
        # each measure looks at the clock itself; the bound is for one that hangs
        return subprocess.run(
            argv, cwd=ROOT, env=env, timeout=seconds + OVERTIME_S, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        print("the figures took too long and were ended")
        return 1


def _report(out: Path, there: dict[str, Any]) -> dict[str, Any]:
    """What ran, what was skipped and why; also a file."""
    path = out / NAME
    lines = path.read_text().splitlines() if path.exists() else []
    tests = [json.loads(line) for line in lines]
    report = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), **there, "tests": tests}
    path.write_text(json.dumps(report, indent=1) + "\n")
    return report


def _print(report: dict[str, Any], out: Path) -> None:
    counts = Counter(test["outcome"] for test in report["tests"])
    words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"\n{report['gpu']}: {words or 'no test'}")
    for test in report["tests"]:
        if test["outcome"] != "passed":
            print(f"  {test['outcome']:8} {test['name']}: {test['why']}")
    print(f"reports: {', '.join(str(path) for path in sorted(out.iterdir()))}")


def _output(*argv: str | Path) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
