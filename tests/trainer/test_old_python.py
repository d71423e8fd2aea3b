"""The trainer library works where user code lives: on old Pythons, with nothing else installed."""

import subprocess
import sys
from pathlib import Path

import pytest

TRAINER = Path(__file__).parents[2] / "trainer"
OLDEST = "3.8"
BYTES_MAX = 57_000


def starts(python: str) -> bool:
    """Whether an interpreter is there, really starts, and is of the oldest version."""
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", show], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.stdout.strip() == OLDEST


def oldest_python() -> str | None:
    homes = Path("~/.pyenv/versions").expanduser().glob(f"{OLDEST}*/bin/python")
    return next(filter(starts, [f"python{OLDEST}", *map(str, sorted(homes))]), None)


def run_suite(python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-W", "error", "-m", "unittest", "discover", "-s", "tests"],
        cwd=TRAINER,
        env={"PYTHONPATH": "src", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def assert_passed(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    assert "Ran 0 tests" not in done.stderr


@pytest.mark.full  # the test below has the oldest Python, or this one
def test_its_own_suite_passes_here():
    assert_passed(run_suite(sys.executable))


def test_its_own_suite_passes_on_the_oldest_python_it_promises():
    python = oldest_python()
    assert_passed(run_suite(python or sys.executable))
    if python is None:
        pytest.skip(f"no Python {OLDEST} that starts was found on PATH or under pyenv")


def test_it_stays_small():
    sources = list((TRAINER / "src/trainshed_trainer").glob("*.py"))
    assert sources
    assert sum(path.stat().st_size for path in sources) < BYTES_MAX
