"""What frameworks, data loaders and debuggers do works behind walls with their filter of calls."""

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from engines.attempts import KEY, ended, engine_at, marked, observe, order, read_answer, texts
from engines.isolating import isolation_of
from engines.support import wait_until
from trainshed.model.launch_plan import Owner

WALLS = ("users", "landlock", "sandbox")
PY_SPY = Path(sys.prefix) / "bin/py-spy"

#: Each line prints what it came to; an error ends the program.
USUAL = """
import asyncio, ctypes, json, mmap, multiprocessing, os, pty, resource, select, signal, socket
import subprocess, sys, tempfile, threading
from multiprocessing import shared_memory
libc = ctypes.CDLL(None, use_errno=True)
done = {}

for method in ("fork", "spawn", "forkserver"):
    with multiprocessing.get_context(method).Pool(2) as pool:
        done[method] = pool.map(abs, [-1, -2])

block = shared_memory.SharedMemory(create=True, size=64)
block.buf[:2] = b"ok"
other = shared_memory.SharedMemory(block.name)
done["shared memory"] = bytes(other.buf[:2]).decode()
other.close(), block.close(), block.unlink()
descriptor = os.memfd_create("data")
os.write(descriptor, b"ok")
done["memfd"] = mmap.mmap(descriptor, 2).read().decode()

threads = [threading.Thread(target=abs, args=(-1,)) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
done["subprocess"] = subprocess.run(["/bin/echo", "ok"], capture_output=True, text=True).stdout
os.sched_setaffinity(0, os.sched_getaffinity(0))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

async def talk():
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, _ = await asyncio.open_connection("127.0.0.1", port)
    return (await reader.read()).decode()
done["asyncio"] = asyncio.run(talk())
done["interfaces"] = any(name for _, name in socket.if_nameindex())

pid = os.fork()
if pid == 0:
    signal.pause()
attach, detach = 16, 17
assert libc.ptrace(attach, pid, None, None) == 0, os.strerror(ctypes.get_errno())
os.waitpid(pid, 0)
assert libc.ptrace(detach, pid, None, None) == 0
os.kill(pid, signal.SIGKILL)
done["ptrace"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps(done))
"""
EXPECTED = {
    "fork": [1, 2], "spawn": [1, 2], "forkserver": [1, 2], "shared memory": "ok", "memfd": "ok",
    "subprocess": "ok\n", "asyncio": "", "interfaces": True, "ptrace": -9,
}  # fmt: skip
LOOKS = """
import subprocess, sys
code = (
    "import time\\ndef waiting_here():\\n    print(flush=True)\\n    time.sleep(600)\\n"
    "waiting_here()"
)
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()
words = [sys.argv[1], "dump", "--pid", str(child.pid)]
done = subprocess.run(words, capture_output=True, text=True)
print("waiting_here" in done.stdout, done.stderr)
child.kill()
"""
HANGS = """
import time
def waiting_here():
    time.sleep(600)
waiting_here()
"""
LOADS = """
import hashlib, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(7)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
model = torch.nn.Linear(4, 1)
rule = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs, targets in DataLoader(data, batch_size=16, num_workers=2):
    rule.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    rule.step()
print(hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest())
"""
COMPILES = """
import os, subprocess, sys
open("part.c", "w").write(
    "#include <Python.h>\\n"
    "static struct PyModuleDef m = {PyModuleDef_HEAD_INIT, \\"part\\"};\\n"
    "PyMODINIT_FUNC PyInit_part(void) { return PyModule_Create(&m); }\\n"
)
open("setup.py", "w").write(
    "from setuptools import Extension, setup\\n"
    "setup(name='part', version='1', ext_modules=[Extension('part', ['part.c'])])\\n"
)
words = ["pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
subprocess.run([sys.executable, "-m", *words, "--target", "built", "."], check=True)
words = [sys.executable, "-c", "import part; print(part.__name__)"]
print(subprocess.run(words, cwd="built", capture_output=True, text=True).stdout.strip())
"""


def digest_here(code):
    """The last line of a program that no filter is around."""
    words = [sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[-1]


@pytest.fixture
def tmp_path():
    """A short one: under Landlock multiprocessing has its sockets there, of 107 bytes at most."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def run(root, mark, tmp_path):
    """Run a program in a mode and return the last line of its standard output."""

    def run_program(mode, code, *arguments):
        engine = engine_at(root, isolation=isolation_of(mode, tmp_path), pass_env=())
        plan = marked(mark, code)
        (replica,) = plan.replicas
        argv = (*replica.argv, *map(str, arguments))
        plan = replace(
            plan, replicas=(replace(replica, argv=argv),), owner=Owner(project="alpha", number=7)
        )
        engine.launch(KEY, plan, ())
        end = ended(engine)
        assert end.outcome.exit_code == 0, (end.outcome, texts(root))
        return read_answer(root)

    return run_program


@pytest.mark.parametrize("mode", WALLS)
def test_processes_memory_sockets_and_ptrace_of_the_job_work(mode, run):
    assert json.loads(run(mode, USUAL)) == EXPECTED


@pytest.mark.full
@pytest.mark.parametrize("mode", WALLS)
def test_py_spy_looks_at_a_program_of_the_same_job(mode, run):
    assert run(mode, LOOKS, PY_SPY).startswith("True")


@pytest.mark.full
@pytest.mark.parametrize("mode", WALLS)
def test_the_supervisor_prints_the_stacks_of_a_program_that_hangs(
    mode, root, mark, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", f"{PY_SPY.parent}:/usr/bin:/bin")
    engine = engine_at(root, isolation=isolation_of(mode, tmp_path), pass_env=(), hang_s=1.0)
    plan = replace(marked(mark, HANGS), owner=Owner(project="alpha", number=7))
    engine.launch(KEY, plan, ())
    (hang,) = wait_until(lambda: observe(engine).hung, "the hang was found")
    assert "waiting_here" in hang.stacks
    engine.stop(KEY, order(0.0))
    ended(engine)


@pytest.mark.full
@pytest.mark.parametrize("mode", WALLS)
def test_torch_and_its_data_loader_come_to_the_same(mode, run):
    pytest.importorskip("torch", reason="PyTorch is not installed (make .venv/.test)")
    assert run(mode, LOADS) == digest_here(LOADS)


@pytest.mark.full
@pytest.mark.parametrize("mode", WALLS)
def test_pip_builds_an_extension_with_a_compiler(mode, run):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed (apt install gcc)")
    assert run(mode, COMPILES) == "part"
