"""Tests run in forks of the process that collected them: what becomes of each is reported."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
ONE = """
import os
import pytest

def test_passes(tmp_path):
    print("of process", os.getpid())
    assert tmp_path.is_dir()

def test_fails():
    print("what it printed")
    assert os.getpid() == 0

@pytest.mark.skip(reason="a reason")
def test_skipped():
    pass
"""
DIES = "import os\n\ndef test_dies():\n    os._exit(3)\n"


def run(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "forked_workers", "--forks", "2",
         "-p", "no:cacheprovider", "--basetemp", folder / "inner", "--rootdir", folder, folder],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )  # fmt: skip


def test_each_test_is_reported_once_with_what_it_printed(tmp_path):
    done = run(tmp_path, test_one=ONE, test_two="def test_other():\n    pass\n")
    assert done.returncode == 1
    assert "1 failed, 2 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "what it printed" in done.stdout
    assert "a reason" in done.stdout
    assert "of process" not in done.stdout


def test_a_process_that_dies_ends_the_run_by_the_name_of_its_test(tmp_path):
    done = run(tmp_path, test_dies=DIES)
    assert done.returncode == 1
    assert "a process of tests died in test_dies.py::test_dies" in done.stdout + done.stderr
