"""Measures from a submit to the first line of the last replica, beside kubectl create."""

import re
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import Goal, at_most, tell
from benchmarks.kubernetes import plain
from benchmarks.kubernetes.clusters import (
    Caller,
    Cluster,
    a_job,
    await_state,
    native,
    submit,
)

REPLICAS = 4
BEGAN = "began"
#: Prints its start time; the primary's end ends the others, so it lets them print theirs.
ARGV = ("python3", "-c", f"import time; print('{BEGAN}', time.time(), flush=True); time.sleep(1)")
SLEEPS = ("python3", "-c", "import time; time.sleep(3600)")
WARDEN, LAUNCHER = "task", "attempt"
#: The words of a process of an attempt after its interpreter.
_OF_ATTEMPT = re.compile(rb"/warden\.pyz\0(\w+)\0")


@dataclass(slots=True)
class FirstLines:
    """Seconds of each round, by side."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"kubectl": [], "ours": []})

    @property
    def goals(self) -> list[Goal]:
        """The medians: ours is judged by its distance to the peer's."""
        peer, ours = (statistics.median(self.seconds[side]) for side in ("kubectl", "ours"))
        note = f"medians of {len(self.seconds['ours'])}: {ours:.2f} s and {peer:.2f} s"
        return [
            at_most("first line of 4 replicas, over kubectl create", ours - peer, 1.0, "s", note),
            at_most("the same as a ratio", ours / peer, None, "times"),
        ]


def measure_first_lines(client: Caller, at: Cluster, rounds: int) -> FirstLines:
    """Submit the same job by both sides in turn; the first submit of ours gives the manifest."""
    sent = _read_sent(client, _run_ours(client, at)[0])
    measured = FirstLines()
    for number in range(rounds):
        jobset = plain.plain_jobset(sent, f"bench-{number}", ARGV)
        measured.seconds["kubectl"].append(_run_plain(at, jobset))
        measured.seconds["ours"].append(_run_ours(client, at)[1])
    for side, values in measured.seconds.items():
        tell(f"{side}: {statistics.median(values):.2f} s to the first line of {REPLICAS} replicas")
    return measured


def _run_plain(at: Cluster, jobset: dict[str, object]) -> float:
    began = time.time()
    plain.create(at, jobset)
    return _last_start(plain.await_lines(at, str(dict(jobset["metadata"])["name"]))) - began  # type: ignore[call-overload]


def _run_ours(client: Caller, at: Cluster) -> tuple[str, float]:
    began = time.time()
    name = submit(client, a_job(at, REPLICAS, ARGV))
    await_state(client, name, "SUCCEEDED")
    with client.server.client() as connection:
        lines = [str(row["message"]) for row in connection.lines(native(name, "/logs"))]
    return name, _last_start(lines) - began


def _last_start(lines: list[str]) -> float:
    starts = [float(line.split()[1]) for line in lines if line.startswith(f"{BEGAN} ")]
    if len(starts) != REPLICAS:
        raise SystemExit(f"expected a line of {REPLICAS} replicas, got {len(starts)}: {lines}")
    return max(starts)


def _read_sent(client: Caller, name: str) -> str:
    parts = client.call("GET", native(name, "/manifest"))["parts"]
    return str(next(part["text"] for part in parts if part["name"] == "jobset.json"))


def measure_pod_memory(client: Caller, at: Cluster) -> list[Goal]:
    """Measure the processes of wardens and of the launcher in running pods on this machine."""
    name = submit(client, a_job(at, REPLICAS, SLEEPS))
    await_state(client, name, "RUNNING")
    time.sleep(1.0)  # until all have done what a start needs
    memory = _read_processes(at.pid)
    client.call("POST", f"/v1/{name}:cancel", {})
    await_state(client, name, "CANCELLED")
    wardens, launchers = memory.get(WARDEN, []), memory.get(LAUNCHER, [])
    if not wardens or not launchers:
        raise SystemExit(f"no processes of wardens or launchers are on this machine: {memory}")
    return [
        at_most("a warden, PSS", sum(wardens) / REPLICAS, 16.0, "MB", f"{len(wardens)} processes"),
        at_most("a launcher, PSS", sum(launchers), 20.0, "MB", f"{len(launchers)} processes"),
    ]


def _read_processes(ancestor: int) -> dict[str, list[float]]:
    """Return the proportional memory of the processes below another, by their first word.

    Others on this machine may run a cluster too.
    """
    memory: dict[str, list[float]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            match = _OF_ATTEMPT.search((folder / "cmdline").read_bytes())
            if match and ancestor in _list_ancestors(folder):
                text = (folder / "smaps_rollup").read_text()
                memory.setdefault(match[1].decode(), []).append(_read_pss(text))
        except OSError:
            continue
    return memory


def _list_ancestors(folder: Path) -> Iterator[int]:
    """Yield the ids of the processes above one.  Raises OSError."""
    while True:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        pid = int(fields[1])
        if pid == 0:
            return
        yield pid
        folder = folder.with_name(str(pid))


def _read_pss(text: str) -> float:
    return int(re.findall(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)[0]) / 1024
