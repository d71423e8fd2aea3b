"""The units of systemd are what the how-to says of them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/how-to/secure.md").read_text()
UNITS = ROOT / "systemd"
#: systemd weighs some settings otherwise in other versions.
DRIFT = 0.3
FIGURES = dict(re.findall(r"(?m)^\| `(users|sandbox|landlock)` \|.*\| ([0-9.]+) \|$", PAGE))
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is not installed (apt install systemd)",
)


@needs_systemd
@pytest.mark.parametrize("mode", ["landlock", "sandbox", "users"])
def test_a_unit_exposes_no_more_than_the_page_says(tmp_path, mode):
    folder = tmp_path / "etc/systemd/system"
    changes = folder / "trainshed.service.d"
    changes.mkdir(parents=True)
    shutil.copy(UNITS / "trainshed.service", folder)
    if mode != "landlock":
        shutil.copy(UNITS / f"trainshed.service.d/{mode}.conf", changes)
    words = ["systemd-analyze", "security", "--offline=true", f"--root={tmp_path}"]
    done = subprocess.run(
        [*words, "trainshed.service"], capture_output=True, text=True, check=False
    )
    if "offline" in done.stderr:
        pytest.skip("this systemd-analyze cannot look at files: install systemd 250 or newer")
    level = re.search(r"exposure level for trainshed\.service: ([0-9.]+)", done.stdout)
    assert level, done.stderr
    assert float(level[1]) <= float(FIGURES[mode]) + DRIFT


@pytest.mark.parametrize("name", ["trainshed.service", *(UNITS / "trainshed.service.d").iterdir()])
def test_a_unit_leaves_jobs_running_and_their_compilers_working(name):
    settings = dict(re.findall(r"(?m)^(\w+)=(.*)$", (UNITS / name).read_text()))
    assert "MemoryDenyWriteExecute" not in settings, "XLA and CUDA write code"
    assert "PrivateTmp" not in settings, "a restart would empty the /tmp of jobs that run on"
    assert "RemoveIPC" not in settings, "a restart would take the shared memory of jobs that run on"
    assert settings.get("KillMode", "process") == "process"
    assert "KillMode" in settings or name != "trainshed.service"
