"""`make test` and `make test-full`: what needs a whole core runs beside what mostly waits."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import IO, Final

ROOT: Final = Path(__file__).parent.parent
BUILD: Final = ROOT / "build"
BIN: Final = Path(sys.executable).parent
#: pytest would load the plugins of all distributions, and rewrite the assertions in each of their
#: modules: the 600 of Trainshed, which has a plugin too, cost every process 6 CPU s.
PLUGINS: Final = ("xdist.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
LOADED: Final = ("--disable-plugin-autoload", *(f"-p{plugin}" for plugin in PLUGINS))
PYTEST: Final = (sys.executable, "-m", "pytest", "-q", *LOADED)

#: What the core's tests reach of each of its packages.
BRANCHES_PERCENT_MIN: Final = 95.0
#: The tests of the core: they compute, and start nothing.
CORE: Final = (
    *(f"tests/{name}" for name in ("admission", "catalog", "launch", "lifecycle", "placement")),
    *(f"tests/{name}" for name in ("model", "planning", "tuning", "wire")),
    *(
        f"tests/test_{name}.py"
        for name in ("durations", "faults", "resource_names", "trial_values")
    ),
    *(
        f"tests/cli/test_plan{part}.py"
        for part in ("", "_inputs", "_output", "_published", "_seeds")
    ),
    "tests/service/test_learning.py",
    "tests/service/test_plan_notes.py",
    "tests/service/test_reduction_forecast.py",
    "tests/workbench/test_documents.py",
    "tests/workbench/test_report_fronts.py",
    "tests/workbench/test_study_view.py",
    "tests/controller/test_studies.py",
    "tests/controller/test_studies_trouble.py",
    "tests/engines/test_local_engine_severity.py",
)
#: Their modules import PyTorch.  Each worker of the other tests would import it to collect them:
#: 6 CPU s a worker, and every process that the worker forks would be larger.
REDUCTION: Final = ("tests/reduction",)
CHECKS: Final = {
    "lint": (BIN / "ruff", "check", "."),
    "format": (BIN / "ruff", "format", "--check", "."),
    "contracts": (BIN / "lint-imports",),
    "core": (sys.executable, "-m", "coverage", "run", *PYTEST[1:], *CORE),
    "types": (BIN / "mypy",),
    "reduction": (*PYTEST, *REDUCTION),
}

_pids: Final[list[int]] = []
"""Of the parts that run."""
_is_ending: Final = threading.Event()


@dataclass(frozen=True, slots=True)
class Part:
    """How a part went."""

    name: str
    seconds: float
    cpu_seconds: float
    """Of its processes, but for those that outlive who has started them."""
    code: int


def main() -> int:
    """Run all parts, whatever becomes of the others; 0 if all are well."""
    started = time.monotonic()
    signal.signal(signal.SIGTERM, _end)
    BUILD.mkdir(exist_ok=True)
    env = _environ(full="--full" in sys.argv)
    compiled = _quietly("bytecode", (sys.executable, "scripts/bytecode.py"), env)
    with ThreadPoolExecutor(1) as beside:
        checks = beside.submit(lambda: [_quietly(*check, env) for check in CHECKS.items()])
        rest = [word for path in (*CORE, *REDUCTION) for word in ("--ignore", path)]
        workers = 2 * len(os.sched_getaffinity(0))  # they wait half of the time
        many = ("-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder")
        tests = _run("tests", (*PYTEST, *many, *rest), env, None)
        parts = [compiled, *checks.result(), _coverage(env), tests]
    for part in parts:
        words = f"{part.seconds:7.1f} s  {part.cpu_seconds:7.1f} CPU s  {part.name:10}"
        print(f"{words}  {'failed' if part.code else 'well'}")
    cpu_seconds = sum(part.cpu_seconds for part in parts)
    print(f"{time.monotonic() - started:7.1f} s  {cpu_seconds:7.1f} CPU s  in all")
    return int(any(part.code for part in parts))


def _environ(*, full: bool) -> dict[str, str]:
    env = {**os.environ, "COVERAGE_FILE": str(BUILD / "coverage")}
    env.setdefault("TRAINSHED_LEFTOVERS", "fail")
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes start: each would compile all
    if full:
        env["TRAINSHED_CHAOS"] = "full"
    return env


def _quietly(name: str, argv: tuple[str | Path, ...], env: dict[str, str]) -> Part:
    """Show what it printed only if it failed."""
    output = BUILD / f"{name}.txt"
    with output.open("wb") as file:
        part = _run(name, argv, env, file)
    if part.code:
        print(f"\n{name} failed:\n{output.read_text()}", flush=True)
    return part


def _run(
    name: str, argv: tuple[str | Path, ...], env: dict[str, str], output: IO[bytes] | None
) -> Part:
    if _is_ending.is_set():
        return Part(name, 0.0, 0.0, code=1)
    started = time.monotonic()
    process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=output, stderr=output)
    _pids.append(process.pid)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    _pids.remove(process.pid)
    seconds = time.monotonic() - started
    return Part(name, seconds, used.ru_utime + used.ru_stime, process.returncode)


def _end(signum: int, _frame: FrameType | None) -> None:
    """Pass the signal on, so that fixtures stop what they have started; begin no other part."""
    _is_ending.set()
    for pid in _pids.copy():
        os.kill(pid, signum)


def _coverage(env: dict[str, str]) -> Part:
    """Print the branches of each package of the core that its tests reach."""
    report = BUILD / "coverage.json"
    part = _quietly("coverage", (sys.executable, "-m", "coverage", "json", "-q", "-o", report), env)
    if part.code:
        return part
    covered, count = Counter[str](), Counter[str]()
    for path, file in json.loads(report.read_text())["files"].items():
        package = Path(path).relative_to("src/trainshed").parts[0]
        covered[package] += file["summary"]["covered_branches"]
        count[package] += file["summary"]["num_branches"]
    percent = {package: 100.0 * covered[package] / count[package] for package in sorted(count)}
    for package, share in percent.items():
        print(f"{share:7.1f} % of the branches of {package}")
    return replace(part, code=int(min(percent.values()) < BRANCHES_PERCENT_MIN))


if __name__ == "__main__":
    sys.exit(main())
