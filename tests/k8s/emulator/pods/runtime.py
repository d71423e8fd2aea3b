"""Runs containers as processes of this machine, in namespaces of their own.

A pod is one process that holds its network, host name, message queues and mounts; a container is a
process that enters these and has a process table and a root of its own.  All of them end with the
thread that started them, and ``close`` ends them by their pids alone.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from k8s.emulator.pods import linux
from k8s.emulator.pods.cgroups import MemoryGroup, make_group
from k8s.emulator.pods.hosts import RESOLVER, host_name_of
from k8s.emulator.pods.network import SERVER, PodNetwork, find_tool
from k8s.emulator.pods.pod_run import StartRefused
from k8s.emulator.pods.volumes import SHM_BYTES, find_source, plan_volumes

HERE = Path(__file__).parent
START_LIMIT_S = 60.0
EMPTY_DIR_MODE = 0o777
SIGKILL_CODE = 128 + signal.SIGKILL


def explain_absence():
    """Why pods cannot run here, or an empty text."""
    if os.geteuid() != 0:
        return "pods with namespaces of their own need root"
    absent = [name for name in ("ip", "nsenter", "unshare") if find_tool(name) is None]
    if absent:
        return f"not installed (apt install iproute2 util-linux): {', '.join(absent)}"
    script = (
        "mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w /mnt/r && "
        "mount -t overlay o -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/r"
    )
    words = (find_tool("unshare"), "--mount", "--net", "--pid", "--fork", "sh", "-c", script)
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    return f"no namespaces or overlays: {done.stderr.strip()}" if done.returncode else ""


@dataclass(slots=True)
class ContainerProcess:
    """``entry`` waits for the first process of the container, whose pid is ``pid``."""

    entry: subprocess.Popen
    pid: int
    group: MemoryGroup | None
    waiter: threading.Thread | None = None
    is_out_of_memory: bool = False


@dataclass(slots=True)
class PodProcesses:
    folder: Path
    sandbox: subprocess.Popen
    volumes: dict
    containers: dict[str, ContainerProcess] = field(default_factory=dict)
    is_killed: bool = False


class ProcessRuntime:
    """``read(namespace, kind, name)`` gives Secrets and ConfigMaps; ``folder`` is its own."""

    def __init__(self, folder, claims, read):
        self.on_exit = None
        self._folder, self._claims, self._read = folder, claims, read
        self._pods = {}
        self._lock = threading.RLock()
        self._holder = None
        self._network = None

    def open_pod(self, pod):
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        folder = self._folder / uid
        volumes = plan_volumes(pod, folder, self._claims, lambda *row: self._read(namespace, *row))
        self._make_folders(pod, folder, volumes)
        tmpfs = [(row.source, row.tmpfs) for row in volumes.values() if row.tmpfs]
        tmpfs.append((folder / "shm", f"mode=1777,size={SHM_BYTES}"))
        files = [file for row in volumes.values() for file in row.files]
        sandbox = _start_sandbox(host_name_of(pod), tmpfs, files)
        with self._lock:
            self._pods[uid] = PodProcesses(folder, sandbox, volumes)
        return self._connect(sandbox.pid)

    def start(self, pod, order):
        processes = self._pods[pod["metadata"]["uid"]]
        mounts = [*self._system_mounts(processes, order), *self._volume_mounts(processes, order)]
        group = make_group(order.memory_bytes) if order.memory_bytes else None
        entry, pid = self._start_entry(processes, order, mounts, group)
        container = ContainerProcess(entry, pid, group)
        with self._lock:
            processes.containers[order.name] = container
        words = (pod["metadata"]["uid"], order.name, container)
        container.waiter = threading.Thread(target=self._wait, args=words, name="container-end")
        container.waiter.start()

    def signal(self, uid, container, signum):
        with suppress(KeyError, ProcessLookupError):
            os.kill(self._pods[uid].containers[container].pid, signum)

    def exhaust_memory(self, uid, container):
        """Kill a whole container, as the kernel does at the limit of its group (version 2)."""
        process = self._pods[uid].containers[container]
        process.is_out_of_memory = True
        os.kill(process.pid, signal.SIGKILL)

    def kill_pod(self, uid):
        with self._lock:
            processes = self._pods.get(uid)
            if processes is None:
                return
            processes.is_killed = True
            rows = list(processes.containers.values())
        for pid in (*(row.pid for row in rows if row.entry.poll() is None), processes.sandbox.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def is_open(self, uid):
        return uid in self._pods and not self._pods[uid].is_killed

    def close_pod(self, uid):
        self.kill_pod(uid)
        with self._lock:
            processes = self._pods.pop(uid, None)
        if processes is None:
            return
        for container in processes.containers.values():
            container.waiter.join()
        processes.sandbox.wait()
        shutil.rmtree(processes.folder)

    def close(self):
        """End all pods and the network."""
        for uid in list(self._pods):
            self.close_pod(uid)
        if self._holder:
            self._holder.kill()
            self._holder.wait()
            self._holder = None

    def write_hosts(self, uid, text):
        """Write over the old text and cut afterwards, so that no reader meets an empty file."""
        path = self._pods[uid].folder / "hosts"
        with path.open("r+") as file:
            file.write(text)
            file.truncate()

    def log_path(self, uid, container):
        """The file of all that a container has written, or None."""
        path = self._folder / uid / f"{container}.log"
        return path if path.exists() else None

    def list_pids(self, uid):
        """The first processes of a pod's containers."""
        return {name: row.pid for name, row in self._pods[uid].containers.items()}

    def call_in_network(self, call):
        """Call in the network of all pods: sockets made there stay there (``network.SERVER``)."""
        self.open_network()

        def enter_and_call():
            linux.enter(self._holder.pid, ("net",))
            call()

        thread = threading.Thread(target=enter_and_call, name="pod-network")
        thread.start()
        thread.join()

    def _connect(self, pid):
        self.open_network()
        return self._network.connect(pid)

    def open_network(self):
        """Open the network of all pods, whose process ends with this runtime."""
        if self._network is None:
            self._holder = _start_sandbox("cluster", [], [])
            self._network = PodNetwork(self._holder.pid)

    def _make_folders(self, pod, folder, volumes):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "shm").mkdir(exist_ok=True)
        for volume in volumes.values():
            if volume.source.is_relative_to(folder):
                volume.source.mkdir(parents=True, exist_ok=True)
                volume.source.chmod(EMPTY_DIR_MODE)
        namespace = pod["metadata"]["namespace"]
        (folder / "hosts").write_text("")
        (folder / "hostname").write_text(f"{host_name_of(pod)}\n")
        resolver = RESOLVER.format(namespace=namespace, server=SERVER)
        (folder / "resolv.conf").write_text(resolver)

    def _system_mounts(self, processes, order):
        paths = {row.path for row in order.mounts}
        own = (
            *(
                ((processes.folder / name), f"/etc/{name}")
                for name in ("hosts", "hostname", "resolv.conf")
            ),
            (processes.folder / "shm", "/dev/shm"),  # noqa: S108 - a container's own
        )
        for source, path in own:
            if path not in paths:
                yield _mount_row(source, path)
        for source, path in order.image.binds:
            yield _mount_row(source, path, is_read_only=True)

    def _volume_mounts(self, processes, order):
        for mount in sorted(order.mounts, key=lambda row: row.path):
            volume = processes.volumes[mount.volume]
            source = find_source(volume, mount, order.name)
            yield _mount_row(
                source,
                mount.path.rstrip("/"),
                is_read_only=mount.is_read_only or volume.is_read_only,
                is_noexec=volume.is_noexec,
            )

    def _start_entry(self, processes, order, mounts, group):
        """The waiting process, and the pid of the container's first one; StartRefused."""
        scratch = processes.folder / f"root-{order.name}"
        scratch.mkdir()
        readable, writable = os.pipe()
        words = {
            "sandbox": processes.sandbox.pid,
            "status": writable,
            "cgroup": str(group.members) if group else "",
            "image": str(order.image.folder),
            "scratch": str(scratch),
            "root": f"{scratch}/root",
            "mounts": mounts,
            "argv": list(order.argv),
            "env": dict(order.env),
            "working_dir": order.working_dir,
            "user": order.user,
            "group": order.group,
            "groups": list(order.groups),
            "dropped": list(order.dropped),
            "can_gain": order.can_gain,
            "is_root_read_only": order.is_root_read_only,
        }
        with (processes.folder / f"{order.name}.log").open("ab") as log:
            entry = _start_python("entry.py", words, stdout=log, stderr=log, pass_fds=(writable,))
        os.close(writable)
        try:
            return entry, _read_start(readable)
        except StartRefused:
            entry.wait()
            if group:
                _until(group.remove)
            raise

    def _wait(self, uid, name, container):
        code = container.entry.wait()
        is_oom = container.is_out_of_memory
        is_oom |= container.group is not None and container.group.has_killed
        if container.group is not None:
            _until(container.group.remove)
        if not self._pods.get(uid, None) or self._pods[uid].is_killed:
            return
        self.on_exit(uid, name, code if code >= 0 else SIGKILL_CODE, is_oom=is_oom)


def _mount_row(source, path, *, is_read_only=False, is_noexec=False):
    row = {"source": str(source), "path": path}
    return {**row, "is_read_only": is_read_only, "is_noexec": is_noexec}


def _start_python(script, order, **streams):
    words = (sys.executable, "-I", "-S", HERE / script)
    process = subprocess.Popen(words, stdin=subprocess.PIPE, **streams)
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
    return process


def _start_sandbox(host, tmpfs, files):
    order = {
        "hostname": host,
        "tmpfs": [{"path": str(path), "options": options} for path, options in tmpfs],
        "files": files,
    }
    process = _start_python("sandbox.py", order, stdout=subprocess.PIPE)
    with process.stdout:
        answer = process.stdout.readline()
    assert answer == b"ready\n", "a pod's sandbox did not start; its error is above"
    return process


def _read_start(readable):
    """Read the pid, and the end of the pipe when the program has started."""
    data, deadline_s = b"", time.monotonic() + START_LIMIT_S
    with os.fdopen(readable, "rb", buffering=0) as pipe:
        while True:
            wait_s = max(0.0, deadline_s - time.monotonic())
            is_ready = select.select([pipe], [], [], wait_s)[0]
            assert is_ready, f"a container did not start within {START_LIMIT_S} s"
            if not (piece := pipe.read(4096)):
                break
            data += piece
    first, _, rest = data.partition(b"\n")
    if not data:
        raise StartRefused("the container's first process ended; the container's log says why")
    if b"{" in data:
        raise StartRefused(json.loads(data[data.index(b"{") : data.rindex(b"}") + 1])["refusal"])
    assert not rest, rest
    return int(first)


def _until(is_done, limit_s=START_LIMIT_S):
    deadline_s = time.monotonic() + limit_s
    while not is_done() and time.monotonic() < deadline_s:
        time.sleep(0.01)
