"""Checks a cluster by a task on one of its nodes, for ``doctor --engine``.

The task answers with a file in the shared folder.  So the answer also shows whether server and
node see the same folder, and with which delay.  Afterwards the probe removes all its files.
"""

import hashlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trainshed.engines.base import EngineFinding
from trainshed.engines.slurm import interpreters, states
from trainshed.engines.slurm.options import SlurmOptions
from trainshed.engines.slurm.queue import Queue
from trainshed.engines.slurm.script import store_script
from trainshed.engines.slurm.states import SlurmState
from trainshed.engines.spool import Spool
from trainshed.engines.supervise.record.folder import read_file
from trainshed.files.beneath import PathBeneath
from trainshed.files.trees import remove_tree

#: Seconds to wait for an answer: the cluster may have no free node for a while.
ANSWER_S_MAX: Final = 300.0
_LOOK_S: Final = 0.05
#: A longer delay of the shared folder, in seconds, is reported as bad: log lines and ends of jobs
#: have the same delay.
_LATE_S: Final = 5.0
#: A larger difference of clocks, in seconds, is reported as bad.
_CLOCK_S: Final = 2.0
_PYTHON: Final = (3, 9)
_QUESTION: Final = "question"
_ANSWER: Final = "answer.json"
_ANSWER_BYTES_MAX: Final = 1 << 22

#: The script of the task.  Its arguments are the folder and the interpreters; the first interpreter
#: runs the rest of the script.  The text is constant.
SCRIPT: Final = """\
#!/bin/sh
umask 077
folder=$1
if ! command -v "$2" > /dev/null 2>&1; then
    host=${SLURMD_NODENAME:-$(uname -n)}
    printf '{"host": "%s", "python": null}' "$host" > "$folder/answer.part"
    mv "$folder/answer.part" "$folder/answer.json"
    exit 0
fi
exec "$2" -I -c '
import importlib.util, json, os, subprocess, sys, time
folder, began = sys.argv[1], time.time()
ASK = (
    "import json, sys\\n"
    "from importlib import metadata\\n"
    "held = reversed(list(metadata.distributions()))\\n"
    "names = {str(each.metadata[\\"Name\\"]): str(each.version) for each in held}\\n"
    "found = {name.lower().replace(\\"_\\", \\"-\\"): each for name, each in names.items()}\\n"
    "found[\\"python\\"] = \\".\\".join(map(str, sys.version_info[:3]))\\n"
    "print(json.dumps(found))"
)
def held(python):
    try:
        said = subprocess.run([python, "-I", "-c", ASK], capture_output=True, timeout=60)
        return json.loads(said.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
while "question" not in os.listdir(folder) and time.time() - began < 120:
    time.sleep(0.05)
with open(folder + "/question") as file:
    word = file.read()
with open("/proc/self/cgroup") as file:
    groups = file.read()
answer = {
    "host": os.environ.get("SLURMD_NODENAME") or os.uname()[1],
    "python": list(sys.version_info[:3]), "word": word,
    "began": began, "late_s": time.time() - began, "now": time.time(),
    "in_cgroup": "slurm" in groups or "job_" in groups,
    "numpy": importlib.util.find_spec("numpy") is not None,
}
answer["pythons"] = {each: held(each) for each in sys.argv[2:]}
answer["now"] = time.time()
with open(folder + "/answer.part", "w") as file:
    json.dump(answer, file)
os.rename(folder + "/answer.part", folder + "/answer.json")
' "$@"
"""
SCRIPT_NAME: Final = f"probe-{hashlib.sha256(SCRIPT.encode()).hexdigest()[:16]}.sh"


def probe(
    queue: Queue, spool: Spool, options: SlurmOptions, *, answer_s_max: float = ANSWER_S_MAX
) -> Iterator[EngineFinding]:
    """Run the task; yield each finding once it is known.  Raises OSError if Slurm is away."""
    yield from _check_config(queue.config())
    word, name = secrets.token_hex(8), f"probe-{secrets.token_hex(4)}"
    folder = Path(spool.server_path, name)
    folder.mkdir(mode=0o700)
    job = ""
    try:
        folder.joinpath(_QUESTION).write_text(word)
        node_folder = f"{spool.node_path}/{name}"
        script = store_script(spool, SCRIPT_NAME, SCRIPT, is_remote=bool(options.ssh))
        submitted_s = time.time()
        pythons = interpreters.list_pythons(options)
        job = queue.submit([*_compose_words(queue, options), script, node_folder, *pythons])
        waits = f"Slurm job {job} was submitted; its answer may take {answer_s_max:g} s"
        yield EngineFinding("task", is_well=True, found=waits)
        answer = _await_answer(folder, answer_s_max)
        answered_s = time.time()
        if answer is None:
            yield _explain_missing_answer(queue, job, answer_s_max)
        else:
            interpreters.keep(spool, answer)
            yield from _check_answer(answer, word, options.python, submitted_s, answered_s)
            yield from interpreters.findings(options, answer)
    finally:
        if job:
            queue.cancel(job)
        remove_tree(folder)


def _compose_words(queue: Queue, options: SlurmOptions) -> Iterator[str]:
    yield from ("--parsable", "--no-requeue", "--export=ALL", "--ntasks=1", "--time=5")
    yield from (f"--job-name={queue.prefix}probe", "--output=/dev/null", "--chdir=/")
    settings = {
        "partition": options.partition,
        "account": options.account_of(""),
        "qos": options.qos,
        "reservation": options.reservation,
        "constraint": options.constraint,
    }
    yield from (f"--{option}={text}" for option, text in settings.items() if text)
    yield from options.sbatch_options


def _check_config(text: str) -> Iterator[EngineFinding]:
    settings = {
        key.strip(): value.strip()
        for key, _, value in (line.partition("=") for line in text.splitlines())
    }
    track = settings.get("ProctrackType", "?")
    yield EngineFinding(
        "version",
        is_well=True,
        found=f"Slurm {settings.get('SLURM_VERSION', 'of an unknown version')}",
    )
    yield EngineFinding(
        "process tracking",
        is_well=track == "proctrack/cgroup",
        found=track,
        advice="set ProctrackType=proctrack/cgroup in slurm.conf: with other types a program "
        "that forks twice can outlive its job",
    )


def _await_answer(folder: Path, seconds: float) -> Mapping[str, Any] | None:
    """Wait for the task's answer; None: it has not come in time.

    Lists the folder, because on NFS a lookup may not find a new file.
    """
    until_s = time.monotonic() + seconds
    path = PathBeneath.of_file(str(folder / _ANSWER))
    while time.monotonic() < until_s:
        if any(entry.name == _ANSWER for entry in folder.iterdir()):
            with suppress(OSError, ValueError):
                answer = json.loads(read_file(path, bytes_max=_ANSWER_BYTES_MAX))
                return answer if isinstance(answer, dict) else None
        time.sleep(_LOOK_S)
    return None


def _explain_missing_answer(queue: Queue, job: str, seconds: float) -> EngineFinding:
    row = next((row for row in queue.jobs() if row.id == job), None)
    if row is not None and states.state_of([row]) is SlurmState.PENDING:
        text = f"job {job} has waited for {seconds:g} s: {row.reason}"
        advice = "free a node, or check `partition` and `account` in [[engine]]"
    else:
        text = f"job {job} wrote no answer within {seconds:g} s"
        advice = (
            "mount the folder `spool` on the nodes; set `spool_there` if its path differs there"
        )
    return EngineFinding("task", is_well=False, found=text, advice=advice)


def _check_answer(
    answer: Mapping[str, Any], word: str, python: str, submitted_s: float, answered_s: float
) -> Iterator[EngineFinding]:
    host = str(answer.get("host", "?"))
    version = answer.get("python")
    oldest = ".".join(map(str, _PYTHON))
    if version is None:
        yield EngineFinding(
            "python",
            is_well=False,
            found=f"{host} has no {python}",
            advice=f"install Python {oldest} or newer on the nodes, or set `python`",
        )
        return
    yield EngineFinding(
        "python",
        is_well=tuple(version) >= _PYTHON,
        found=f"{python} of {host} is {'.'.join(map(str, version))}",
        advice=f"set `python` to Python {oldest} or newer",
    )
    yield EngineFinding(
        "numpy",
        is_well=bool(answer.get("numpy")),
        found="found" if answer.get("numpy") else f"{python} of {host} has no numpy",
        advice="install numpy on the nodes if jobs use reducers; other jobs do not need it",
        is_needed=False,
    )
    yield from _check_folder(answer, word, host, answered_s)
    yield EngineFinding(
        "processes in a cgroup",
        is_well=bool(answer.get("in_cgroup")),
        found=f"{'yes' if answer.get('in_cgroup') else 'no'}, on {host}",
        advice="a cancelled job may leave processes: see process tracking",
    )
    began = float(answer.get("began", submitted_s))
    difference_s = max(submitted_s - began, began - answered_s, 0.0)
    yield EngineFinding(
        "clock",
        is_well=difference_s <= _CLOCK_S,
        found=f"the clock of {host} differs by at least {difference_s:.1f} s"
        if difference_s
        else "no difference measured",
        advice="synchronize the clocks of server and nodes (chrony or ntpd)",
    )
    yield EngineFinding(
        "first line", is_well=True, found=f"{max(0.0, began - submitted_s):.2f} s after sbatch"
    )


def _check_folder(
    answer: Mapping[str, Any], word: str, host: str, answered_s: float
) -> Iterator[EngineFinding]:
    late_s = float(answer.get("late_s", 0.0))
    return_s = max(0.0, answered_s - float(answer.get("now", answered_s)))
    yield EngineFinding(
        "shared folder, seen from a node",
        is_well=answer.get("word") == word and late_s <= _LATE_S,
        found=f"{host} saw a new file after {late_s:.1f} s",
        advice="mount the folder with shorter attribute caches (NFS: actimeo=1)",
    )
    yield EngineFinding(
        "shared folder, seen from the server",
        is_well=return_s <= _LATE_S,
        found=f"the server saw a file of {host} after {return_s:.1f} s",
        advice="mount the folder with shorter attribute caches (NFS: actimeo=1): log lines and "
        "ends of jobs have the same delay",
    )
