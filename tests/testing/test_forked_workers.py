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

@pytest.mark.timeout(0.1)
def test_takes_long():
    import time
    time.sleep(60)
"""
DIES = "import os\n\ndef test_dies():\n    os._exit(3)\n"


def test_each_test_is_reported_once_and_so_is_one_whose_process_dies(tmp_path):
    files = {"one": ONE, "two": "def test_other():\n    pass\n", "z": DIES}
    for name, text in files.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "forked_workers", "--forks", "2",
         "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        env={**os.environ, "PYTHONPATH": str(HERE), "TMPDIR": str(tmp_path)},
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    output = done.stdout + done.stderr
    assert done.returncode == 1, output
    assert "3 failed, 2 passed, 1 skipped" in output
    assert "what it printed" in output
    assert "a reason" in output
    assert "of process" not in output
    assert "the process of this test ended with 3" in output
