"""A real Slurm of the tests' own: Debian's packages, all its nodes on this machine.

It has a network of its own, so that its ports are nobody else's; commands run in it through small
programs in ``bin``, as they would on a login node.  A server and its jobs share nothing with each
other but folders.  It needs root, and ends with the tests: what runs in its network is its own.

    python tests/slurm/cluster.py FILE [--large]   # FILE gets its folder; it ends when told to

TRAINSHED_SLURM_RELEASE=FOLDER takes another release from a folder that ``release.sh`` has filled.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from slurm.configuration import FREEZER, Settings, compose_files, gpus_of

DEADLINE_S = 60.0
POLL_S = 0.05
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun", "sdiag")
DAEMONS = ("munged", "slurmctld", "slurmd")
OTHERS = ("ip", "unshare", "nsenter", "setpriv")
PACKAGES = "slurmctld slurmd slurm-client munge iproute2"
#: At the end of a node's state: does not respond, maintenance, powered down, powering up, ...
MARKS = "*$~#!%@^-"
#: More devices than one driver has; Slurm asks only whether they are devices.
NULL = os.makedev(1, 3)

SMALL = Settings()
LARGE = Settings(nodes=100, gpus={})


def why_not() -> str:
    """What keeps a cluster from being started here; empty where nothing does."""
    if os.geteuid() != 0:
        return "a Slurm of one's own needs root: run the tests as root"
    absent = [name for name in (*DAEMONS, *COMMANDS, *OTHERS) if not program(name)]
    if absent:
        return f"not installed (apt install {PACKAGES}): {', '.join(absent)}"
    tried = subprocess.run([program("unshare"), "--net", "true"], check=False, capture_output=True)
    return f"no network of one's own: {tried.stderr.decode().strip()}" if tried.returncode else ""


def program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


@contextmanager
def running_cluster(settings: Settings = SMALL) -> Iterator["Cluster"]:
    """Start one in a folder that goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="sl-"))  # short: a socket's path has 107 bytes at most
    folder.chmod(0o755)
    try:
        cluster = Cluster(folder, settings)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.end()
    finally:
        shutil.rmtree(folder)


class Cluster:
    """Its controller, its nodes, and what a test does to them."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        # cgroups of nodes bear their names, and the machine may have several clusters
        self.prefix = f"t{os.getpid()}x{folder.name[3:6].lower().replace('_', 'z')}n"
        self.nodes = [f"{self.prefix}{number}" for number in range(1, settings.nodes + 1)]
        self.bin = folder / "bin"
        self.shared = folder / "shared"
        """Which server and nodes see under the same path."""
        # who starts a daemon again in a test does not own it
        self._env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._holder: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start all, and wait until every node is idle."""
        self._make_folders()
        self._make_network()
        self._mount_release()
        self._write_configuration()
        self._write_commands()
        self._start_munge()
        self.start_controller()
        for node in self.nodes[: len(self.nodes) - self.settings.cloud]:
            self.start_node(node, wait=False)
        self.wait_for(self.all_idle)

    def end(self) -> None:
        """End whatever runs in its network: daemons, steps, and programs of jobs."""
        self.wait_for(lambda: not self._kill(self._list_processes()))
        if self._holder:
            self._holder.kill()
            self._holder.wait()
        for node in self.nodes:
            self._remove_cgroups(node)

    def run(self, *words: object, check: bool = True) -> str:
        """What a command says, run as on a login node."""
        done = subprocess.run(
            [self.bin / str(words[0]), *map(str, words[1:])],
            env=self._env,
            check=False,
            capture_output=True,
            text=True,
        )
        assert not (check and done.returncode), (words, done.stdout, done.stderr)
        return done.stdout

    def start_controller(self) -> None:
        self._daemon("slurmctld", "-f", self.folder / "slurm.conf")
        self.wait_for(lambda: "UP" in self.run("scontrol", "ping", check=False))

    def stop_controller(self, *, is_crash: bool = False) -> None:
        """One that crashes may forget the jobs of its last seconds, and give their numbers anew."""
        signum = signal.SIGKILL if is_crash else signal.SIGTERM
        self._kill(self._controllers(), signum)
        self.wait_for(lambda: not self._controllers())

    def _controllers(self) -> list[int]:
        return [pid for pid in self._list_processes() if _name(pid) == "slurmctld"]

    def forget_state(self) -> None:
        """What the controller kept is gone; it must not run."""
        shutil.rmtree(self.folder / "state")
        (self.folder / "state").mkdir()

    def start_node(self, node: str, *, wait: bool = True) -> None:
        # -b: the node says that it has booted, which Slurm waits for after it has powered it up
        boots = ("-b",) if self.settings.cloud else ()
        self._daemon("slurmd", *boots, "-f", self.folder / "slurm.conf", "-N", node)
        if wait:
            self.wait_for(lambda: self.state(node) in {"idle", "mixed", "allocated"})

    def hide_from(self, node: str, folder: Path) -> None:
        """From now on a node sees an empty folder, as where a shared file system is not mounted."""
        self.kill_node(node)
        mount = ("unshare", "--mount", "--", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')
        self._daemon(
            "slurmd", "-f", self.folder / "slurm.conf", "-N", node, below=(*mount, str(folder))
        )
        self.wait_for(lambda: self.state(node) == "idle")

    def kill_node(self, node: str) -> None:
        """What a loss of power does: its daemon, its steps and their programs end at once."""
        # stopped first, so that no step reports to Slurm that its programs have ended
        self.wait_for(lambda: not self._kill(self._kill(self.processes_of(node), signal.SIGSTOP)))

    def kill_job(self, number: str) -> None:
        """Kill all that runs in an allocation, at once; its daemons are well and see it."""
        cgroup = f"/job_{number}/".encode()
        self._kill([pid for pid in self._list_processes() if cgroup in _read(pid, "cgroup")])

    def crash_daemon(self, node: str) -> None:
        """End slurmd of a node, once it has written its pid; steps and their programs live on."""
        self.wait_for(lambda: self._daemon_of(node))
        self._kill([self._daemon_of(node)])

    @contextmanager
    def frozen(self, node: str) -> Iterator[Sequence[int]]:
        """Stop all processes of a node, so that Slurm cannot reach it while its programs live."""
        pids = self._kill(self.processes_of(node), signal.SIGSTOP)
        try:
            yield pids
        finally:
            self._kill(pids, signal.SIGCONT)

    def processes_of(self, node: str) -> list[int]:
        """Daemon, steps and programs of a node."""
        marks = {f"TRAINSHED_TEST_NODE={node}".encode(), f"SLURMD_NODENAME={node}".encode()}
        cgroup = f"/slurm_{node}/".encode()
        inside = self._list_processes()
        own = {pid for pid in inside if marks & _environ(pid) or cgroup in _read(pid, "cgroup")}
        # slurmstepd of 25.05 writes its title over its environment: it is a parent of programs
        return sorted(own | ({_parent(pid) for pid in own} & {*inside}))

    def state(self, node: str) -> str:
        """In one word of Slurm's, without its marks."""
        return self.run("sinfo", "-h", "-n", node, "-o", "%T", check=False).strip().rstrip(MARKS)

    def all_idle(self) -> bool:
        """Whether all nodes are idle; a cloud's may be powered down."""
        output = self.run("sinfo", "-h", "-N", "-o", "%T", check=False).split()
        states = [word.rstrip("~") for word in output]
        return len(states) >= len(self.nodes) and set(states) == {"idle"}

    def jobs(self, form: str = "%A %j %T %R") -> list[str]:
        """A line for each job that is not over."""
        return self.run("squeue", "-h", "-o", form).splitlines()

    @contextmanager
    def everything_taken(self) -> Iterator[None]:
        """Somebody urgent has all nodes: what runs there is preempted."""
        script = self.folder / "urgent"
        script.write_text("#!/bin/sh\nexec sleep 600\n")
        flags = ("--partition=urgent", f"-N{len(self.nodes)}", "--exclusive", "--output=/dev/null")
        number = self.run("sbatch", "--parsable", *flags, script).strip()
        try:
            self.wait_for(lambda: number in self.jobs_in("RUNNING"))
            yield
        finally:
            self.run("scancel", number)
            self.wait_for(lambda: number not in "\n".join(self.jobs("%A")).split())

    def jobs_in(self, state: str) -> list[str]:
        """The numbers of jobs in one of Slurm's states."""
        return self.run("squeue", "-h", "-o", "%A", "-t", state).split()

    def programs(self, word: bytes) -> list[int]:
        """Processes in it that have a word among theirs."""
        return [pid for pid in self._list_processes() if word in _read(pid, "cmdline").split(b"\0")]

    def finished(self) -> list[dict[str, str]]:
        """Every allocation that has ended, as Slurm has counted them."""
        path = self.folder / "log" / "jobcomp.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [dict(w.split("=", 1) for w in line.split(" ") if "=" in w) for line in lines]

    def empty(self) -> None:
        """Start again what is down, end every job, and wait until all nodes are idle."""
        self._revive()
        self.run("scancel", "--state=PENDING", "--user=root", check=False)
        self.run("scancel", "--user=root", check=False)
        self.wait_for(lambda: not self.jobs())
        self.wait_for(self._is_whole)

    def _is_whole(self) -> bool:
        """All are idle; one that was taken out of service because of a lost job is put back."""
        out = self.run("sinfo", "-h", "-N", "-t", "drain", "-o", "%n", check=False).split()
        if out:
            self.run("scontrol", "update", f"nodename={','.join(out)}", "state=resume", check=False)
        return self.all_idle()

    def _revive(self) -> None:
        names = {pid: _name(pid) for pid in self._list_processes()}
        if "slurmctld" not in names.values():
            self.start_controller()
        alive = {node for node in self.nodes if self._daemon_of(node) in names}
        for node in set(self.nodes) - alive:
            self.start_node(node, wait=False)

    def _daemon_of(self, node: str) -> int | None:
        """Return the pid that slurmd of a node has written; None: it has written none yet."""
        path = self.folder / "run" / f"slurmd.{node}.pid"
        with suppress(FileNotFoundError, ValueError):  # ValueError: it is still empty
            return int(path.read_text())
        return None

    def wait_for(self, true: Callable[[], object], seconds: float = DEADLINE_S) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, self._last_words()
            time.sleep(POLL_S)

    def _last_words(self) -> str:
        logs = sorted((self.folder / "log").glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in logs[:4])

    def _make_folders(self) -> None:
        for name in ("bin", "run", "state", "spool", "log", "dev", "shared", "munge"):
            (self.folder / name).mkdir()
        numbers = range(1, self.settings.nodes + 1)
        count = max(sum(gpus_of(self.settings, number).values()) for number in numbers)
        for number in range(count):
            os.mknod(self.folder / "dev" / f"nvidia{number}", 0o20666, NULL)

    def _make_network(self) -> None:
        """Names are only resolved where an interface other than the loopback has an address."""
        self._holder = subprocess.Popen(
            [program("unshare"), "--net", "--mount", "--", "sleep", "infinity"], env=self._env
        )
        self.wait_for(lambda: _name(self._holder.pid) == "sleep")
        for words in (
            "link set lo up",
            "link add v0 type veth peer name v1",
            "addr add 10.213.0.1/24 dev v0",
            "link set v0 up",
            "link set v1 up",
        ):
            subprocess.run([*self.inside(), program("ip"), *words.split()], check=True)

    def _mount_release(self) -> None:
        """Put programs and plugins of another release over the installed, for this cluster only."""
        for path in _list_files() if self.settings.release else ():
            mount = (program("mount"), "--bind", f"{self.settings.release}{path}", path)
            subprocess.run([*self.inside(), *mount], check=True)

    def inside(self) -> list[str]:
        """What a command begins with that runs in the cluster's network."""
        # `ip netns exec` would mount /sys anew, and the cgroups would be gone
        spaces = f"/proc/{self._holder.pid}/ns"
        mounts = [f"--mount={spaces}/mnt", "--wd=."] if self.settings.release else []
        return [program("nsenter"), f"--net={spaces}/net", *mounts, "--"]

    def _write_commands(self) -> None:
        for name in COMMANDS:
            path = self.bin / name
            inside = " ".join([*self.inside(), program(name)])
            conf = self.folder / "slurm.conf"
            path.write_text(f'#!/bin/sh\nSLURM_CONF={conf} exec {inside} "$@"\n')
            path.chmod(0o755)

    def _start_munge(self) -> None:
        folder = self.folder / "munge"
        (folder / "key").write_bytes(os.urandom(128))
        (folder / "key").chmod(0o600)
        for path in (folder, folder / "key"):
            shutil.chown(path, "munge", "munge")
        user = ("--reuid=munge", "--regid=munge", "--clear-groups", "--")
        files = [f"--{file}-file={folder / file}" for file in ("key", "pid", "log", "seed")]
        command = (program("munged"), *files, f"--socket={folder}/socket", "--num-threads=2")
        subprocess.run(
            [*self.inside(), program("setpriv"), *user, *command],
            env=self._env,
            check=True,
            capture_output=True,
        )

    def _daemon(self, name: str, *words: object, below: Sequence[str] = ()) -> None:
        """It goes into the background by itself, so that it is nobody's child."""
        mark = {"TRAINSHED_TEST_NODE": str(words[-1])} if name == "slurmd" else {}
        subprocess.run(
            [*self.inside(), *below, program(name), *map(str, words)],
            env={**self._env, **mark},
            cwd="/",
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _list_processes(self) -> list[int]:
        """What lives in the cluster's network, but for the one that holds it open."""
        if not self._holder:
            return []
        own = _network(self._holder.pid)
        pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return [pid for pid in pids if pid != self._holder.pid and own == _network(pid)]

    def _kill(self, pids: Sequence[int], signum: int = signal.SIGKILL) -> Sequence[int]:
        assert min(pids, default=1) > 0, "a signal to 0 or below ends the tests themselves"
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signum)
        return pids

    def _remove_cgroups(self, node: str) -> None:
        top = FREEZER / f"slurm_{node}"
        for folder, _, _ in os.walk(top, topdown=False):
            Path(folder).rmdir()

    def _write_configuration(self) -> None:
        for name, lines in compose_files(self.settings, self.folder, self.nodes).items():
            (self.folder / name).write_text("".join(f"{line}\n" for line in lines))


def _list_files() -> Iterator[Path]:
    """List what of an installation of Slurm another release takes the place of."""
    yield Path("/usr/lib/x86_64-linux-gnu/slurm-wlm")
    for name in (*COMMANDS, *DAEMONS[1:], "slurmstepd"):
        yield Path(program(name)).resolve()


def _network(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:  # it has ended, or is a zombie
        return ""


def _name(pid: int) -> str:
    return _read(pid, "comm").decode().strip()


def _parent(pid: int) -> int:
    """Return the pid of the parent; 0: the process has ended."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def _environ(pid: int) -> set[bytes]:
    return set(_read(pid, "environ").split(b"\0"))


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def main() -> None:
    """Keep a cluster until SIGTERM or SIGINT."""
    if reason := why_not():
        sys.exit(reason)
    signals = {signal.SIGTERM, signal.SIGINT}
    with running_cluster(LARGE if "--large" in sys.argv else SMALL) as cluster:
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        waiting = Path(f"{sys.argv[1]}.new")
        waiting.write_text(f"{cluster.folder}\n")
        waiting.rename(sys.argv[1])  # whoever waits for it reads all of it
        signal.sigwait(signals)


if __name__ == "__main__":
    main()
