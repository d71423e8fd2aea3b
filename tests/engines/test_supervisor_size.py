"""A supervisor is small, and stands on the standard library alone."""

import os
import subprocess
import sys
from pathlib import Path

import trainshed
from engines.attempts import KEY, ended, engine_at, folder, lines, marked, order, supervisor, until
from engines.support import FOREVER, open_files, wait_until
from trainshed.model.attempt import Phase

RSS_BYTES_MAX = 15_000_000
COUNT = 40_000

TALKS = (
    "import os, time\n"
    f"data = b''.join(b'%d %s\\n' % (i, b'x' * 100) for i in range({COUNT}))\n"
    "while data: data = data[os.write(1, data):]\n"
    "time.sleep(600)"
)

MODULES = """
import sys
sys.path.append(sys.argv[1])
import trainshed.engines.supervise.main
import trainshed.engines.supervise.helpers.fork_server
names = {name.partition(".")[0] for name in sys.modules}
print(*sorted(names - sys.stdlib_module_names - {"__main__"}))
print(*sorted({"dataclasses", "inspect", "subprocess", "pathlib", "asyncio"} & names))
"""


def rss_bytes(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"{pid} is gone")


def test_a_supervisor_stays_small_while_its_replicas_talk(root, mark):
    engine = engine_at(root, hang_s=3600.0)
    engine.launch(KEY, marked(mark, TALKS, FOREVER, FOREVER, FOREVER), ())
    until(engine, Phase.READY)
    wait_until(lambda: len(lines(root)) == COUNT, "all lines are there")
    assert rss_bytes(supervisor(root)) < RSS_BYTES_MAX
    engine.stop(KEY, order(0.0))
    ended(engine)


def test_a_supervisor_needs_the_standard_library_and_little_of_it():
    source = str(Path(trainshed.__file__).parent.parent)
    argv = [sys.executable, "-I", "-S", "-c", MODULES, source]
    completed = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert completed.stdout.splitlines() == ["trainshed", ""]


def test_nothing_of_the_server_is_open_in_a_supervisor_or_its_replicas(root, mark, tmp_path):
    """A server's sockets and files must not be kept open by its jobs."""
    code = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        engine = engine_at(root)
        engine.launch(KEY, marked(mark, code + "\n" + FOREVER), ())
        wait_until(lambda: lines(root), "the replica has looked")
    assert lines(root)[0].text == "[0, 1, 2]"
    files = map(str, open_files(supervisor(root)))
    ours = {path for path in files if path.startswith("/") and path != os.devnull}
    assert all(path.startswith((str(folder(root)), "/sys/fs/cgroup")) for path in ours), ours
    engine.stop(KEY, order(0.0))
    ended(engine)
