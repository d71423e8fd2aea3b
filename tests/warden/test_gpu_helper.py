"""On a node of a cluster a helper process reads the GPUs, through a driver that the tests build."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainshed.engines.processes import tree
from trainshed.engines.supervise.record import gpu_file
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.gpu_file import GpuFigures
from trainshed.engines.supervise.record.spec import HangRule
from trainshed.engines.supervise.record.usage_file import read_usage
from trainshed.engines.warden import compose, gpu_helper
from trainshed.engines.warden.driver import Driver, VisibleGpu, select_visible
from trainshed.engines.warden.task import compose_task
from trainshed.model.roles import Role
from warden.attempts import KEY, eventually, plan_of, replica

SOURCE = Path(__file__).parents[1] / "gpu/driver/driver.c"
GPUS = [VisibleGpu("GPU-aa", 0, None), VisibleGpu("GPU-ab", 1, None), VisibleGpu("MIG-c", 2, None)]
#: Reports progress until it may end.
TRAINS = """
import json, os, time
path, step = os.environ["TRAINSHED_PROGRESS_FILE"], 0
while not os.path.exists("go"):
    step += 1
    with open(path + ".new", "w") as file:
        json.dump({"step": step, "total": 9000, "loss": 0.5}, file)
    os.replace(path + ".new", path)
    if step == 1:
        print("runs", flush=True)
    time.sleep(0.05)
"""
#: Of these tests: wardens answer each ping, and pings are as frequent as hangs are short.
OFTEN = {"usage_s": 0.2, "hang": HangRule(after_s=30.0)}


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The folder of a driver with two GPUs; its state is below."""
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler (apt install gcc libc6-dev) for the driver")
    folder = tmp_path_factory.mktemp("driver")
    words = ("cc", "-O1", "-shared", "-fPIC", f'-DSTATE="{folder}/state"', SOURCE)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run((*words, "-Wl,-soname,libnvidia-ml.so.1", "-o", library), check=True)
    for gpu in (0, 1):
        state = folder / "state" / str(gpu)
        state.mkdir(parents=True)
        (state / "uuid").write_text(f"GPU-{gpu}")
        (state / "memory").write_text("24576")
        (state / "use").write_text("50")
        (state / "energy").write_text("7000000")
    return folder


@pytest.mark.parametrize(
    ("names", "selected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("1", [1]),
        ("1,0", [1, 0]),
        ("GPU-a", [0, 1]),
        ("GPU-ab, MIG-c", [1, 2]),
        ("0,7,1", [0]),
        ("NoDevFiles", []),
        ("-1", []),
    ],
)
def test_a_process_has_the_gpus_that_its_variable_names(names, selected):
    assert select_visible(GPUS, names) == [GPUS[number] for number in selected]


def test_a_machine_without_a_driver_has_no_figures(capsys):
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has a driver; run this on one that has none")
    with pytest.raises(OSError, match="libnvidia-ml"):
        Driver()
    assert gpu_helper.main("/nowhere") == 0, "the helper ends"
    reason = (
        "there is no libnvidia-ml.so.1; in a container, NVIDIA_DRIVER_CAPABILITIES needs utility"
    )
    assert capsys.readouterr().out.endswith(f": {reason}\n")


@pytest.mark.parametrize(("usage_s", "has_gpus"), [(10.0, [True, False]), (0.0, [False, False])])
def test_only_replicas_whose_gpus_are_to_be_measured_have_a_helper(usage_s, has_gpus):
    plan = plan_of((replica("", gpu_count=4), replica("", Role.WORKER, 0)))
    spec = compose.spec_of(plan, KEY, AttemptFolder("/f"), port=1, usage_s=usage_s)
    tasks = [compose_task(spec, spec.remote, index, "/f") for index in (0, 1)]
    assert [task["has_gpus"] for task in tasks] == has_gpus


def usage_of(attempt):
    return read_usage(attempt.folder)


def helpers_of(attempt):
    children = [child for _, child in tree.descendants(attempt.launcher.pid)]
    return [pid for pid in children if b"\0gpus\0" in tree.read_bytes(f"/proc/{pid}/cmdline")]


def test_replicas_on_other_nodes_have_usage_steps_and_gpus(launchers, driver):
    plan = plan_of((replica(TRAINS), replica(TRAINS, Role.WORKER, 0, gpu_count=1)))
    env = {"LD_LIBRARY_PATH": str(driver), "CUDA_VISIBLE_DEVICES": "1"}
    attempt = launchers.begin(plan, env=env, **OFTEN)

    def is_measured():
        lines = usage_of(attempt)
        replicas = [usage for line in lines for usage in line.replicas.items()]
        steps = {name for name, usage in replicas if usage.step and usage.values and usage.total}
        cores = {name for name, usage in replicas if usage.cpu and usage.memory and usage.processes}
        return len(steps & cores) == 2 and any(line.gpus for line in lines)

    attempt.until(is_measured, "both are measured")
    (figures,) = {
        uuid: gpu for line in usage_of(attempt) for uuid, gpu in line.gpus.items()
    }.items()
    assert figures[0] == "GPU-1"
    assert (figures[1].use.mean, figures[1].power.high, figures[1].temperature.low) == (0.5, 70, 40)
    assert len(helpers_of(attempt)) == 1, "only a replica with GPUs has a helper"
    (Path(attempt.folder.work) / "go").touch()
    assert attempt.ended().outcome.exit_code == 0


def test_replicas_that_end_before_any_ping_are_measured_to_their_last_step(launchers):
    code = (
        "import json, os, time\n"
        "began = time.process_time()\n"
        "while time.process_time() - began < 0.3: pass\n"
        "open(os.environ['TRAINSHED_PROGRESS_FILE'], 'w').write(json.dumps({'step': 77}))\n"
    )
    plan = plan_of((replica(code), replica(code, Role.WORKER, 0)))
    attempt = launchers.begin(plan, usage_s=10.0)
    assert attempt.ended().outcome.exit_code == 0
    (line,) = usage_of(attempt)
    assert [usage.step for usage in line.replicas.values()] == [(77, 77), (77, 77)]
    assert all(usage.cpu.high > 0 for usage in line.replicas.values())


def test_the_only_replica_of_a_launcher_has_them_too_and_its_helper_ends_with_it(launchers, driver):
    env = {"LD_LIBRARY_PATH": str(driver)}
    attempt = launchers.begin(plan_of([replica(TRAINS, gpu_count=2)]), env=env, **OFTEN)
    attempt.until(lambda: usage_of(attempt) and usage_of(attempt)[-1].gpus, "there are GPUs")
    assert usage_of(attempt)[-1].gpus.keys() == {"GPU-0", "GPU-1"}
    (helper,) = helpers_of(attempt)
    os.kill(helper, signal.SIGSTOP)  # as a driver that hangs
    path = gpu_file.locate_gpu_file(attempt.folder, is_on_cluster=True)
    assert gpu_file.read_gpu_file(path, time.time() + 31.0) is None
    attempt.stop(5.0)
    assert attempt.ended().outcome.interrupted
    eventually(lambda: not Path(f"/proc/{helper}").exists(), "the helper has ended")


def test_a_replica_that_may_use_no_gpu_says_so_in_its_log(launchers, driver):
    env = {"LD_LIBRARY_PATH": str(driver), "CUDA_VISIBLE_DEVICES": ""}
    attempt = launchers.begin(plan_of([replica(TRAINS, gpu_count=2)]), env=env, **OFTEN)
    why = "the driver lists no GPU that the replica may use; trying again every 30 s"
    attempt.until(lambda: any(why in text for text in attempt.texts()), "the reason is told")
    (Path(attempt.folder.work) / "go").touch()
    assert attempt.ended().outcome.exit_code == 0


def test_figures_are_those_of_the_driver_and_what_it_lacks_is_not_measured(driver):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from trainshed.engines.warden.driver import Driver\n"
        "driver = Driver()\n"
        "for gpu in driver.list_gpus(): print(gpu.uuid, *driver.read_figures(gpu))\n"
    )
    source = Path(gpu_file.__file__).parents[4]
    env = {"LD_LIBRARY_PATH": str(driver), "PATH": "/usr/bin:/bin"}

    def read():
        words = [sys.executable, "-c", code, source]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    figures = GpuFigures(0.5, 0.0, 70.0, 40.0, 7000.0)
    assert read()[0] == " ".join(map(str, ("GPU-0", *figures)))
    (driver / "state/0/energy").unlink()
    assert read()[0] == " ".join(map(str, ("GPU-0", *figures._replace(energy_j=None))))
    (driver / "state/0/gone").touch()
    assert [line.split()[0] for line in read()] == ["GPU-1"]
    (driver / "state/0/gone").unlink()
    (driver / "state/0/energy").write_text("7000000")
