"""The kubelet of every node: it starts the containers of bound pods and reports how they fare.

Containers are never restarted, whatever a pod's policy says, and there are no init containers.
"""

import signal
import threading
from contextlib import suppress

from k8s.emulator.controllers.job_plan import FINAL_PHASES
from k8s.emulator.controllers.objects import (
    POD_KIND,
    is_deleting,
    key_of,
    status_of,
    uid_of,
)
from k8s.emulator.controllers.recorder import NORMAL, WARNING
from k8s.emulator.pods.hosts import compose_hosts
from k8s.emulator.pods.pod_run import ContainerRun, PodRun, VolumeRefused
from k8s.emulator.pods.pod_status import (
    CREATING,
    NO_CONTAINER,
    compose_exit,
    compose_pod_status,
)
from k8s.emulator.pods.starting import NODE_ADDRESS, SOURCE, ContainerStarter
from k8s.emulator.statuses import NotFound

ALL_HOSTS = ("", "hosts", "")
MESSAGE_BYTES_MAX = 2048


class Kubelets:
    """One object for all nodes; a node that is dead or silent gets and tells nothing."""

    def __init__(self, parts, runtime, images, lifecycle):
        self._parts, self._runtime, self._lifecycle = parts, runtime, lifecycle
        self._starter = ContainerStarter(parts, runtime, images)
        self._runs = {}
        self._silent = set()
        self._lock = threading.RLock()
        runtime.on_exit = self._note_exit
        self._exits = {}
        """Exit codes by pod and container that no reconcile has read yet."""

    def keys_of(self, change, obj):
        if obj["kind"] == POD_KIND:
            is_mine = obj["spec"].get("nodeName")
            if is_mine:
                yield (*key_of(obj), uid_of(obj)), self._delay(change, obj)
        elif obj["kind"] == "Service":
            yield ALL_HOSTS, 0.0

    def reconcile(self, key):
        with self._lock:
            self._reconcile(key)

    def _reconcile(self, key):
        if key == ALL_HOSTS:
            self._refresh_hosts()
            return
        pod = self._parts.cache.get(POD_KIND, key[:2])
        run = self._runs.get(key[2])
        if run is not None and run.node in self._silent:
            return
        if pod is None or uid_of(pod) != key[2]:
            self._forget(key[2])
            return
        if pod["spec"]["nodeName"] in self._silent:
            return
        if run is None:
            run = self._runs[key[2]] = self._begin(pod)
        self._read_exits(pod, run)
        if is_deleting(pod):
            self._terminate(pod, run)
        elif status_of(pod).get("phase") not in FINAL_PHASES:
            self._advance(pod, run)

    def kill_node(self, name):
        """What a loss of power does: all processes of its pods end, and nobody tells of it."""
        self.silence_node(name)
        with self._lock:
            for run in self._runs_of(name):
                self._runtime.kill_pod(run.uid)

    def silence_node(self, name):
        """Its pods run on; the control plane hears nothing of them."""
        self._silent.add(name)
        self._lifecycle.fall_silent(name)

    def revive_node(self, name):
        """A node is back: containers that it does not find have ended with an unknown status."""
        with self._lock:
            for run in self._runs_of(name):
                if not self._runtime.is_open(run.uid):
                    for container in run.containers.values():
                        container.state = {"terminated": dict(NO_CONTAINER)}
            self._silent.discard(name)
        self._lifecycle.speak(name)
        runs = {(*run.key, run.uid) for run in self._runs_of(name)}
        pods = [pod for pod in self._parts.cache.all_of(POD_KIND) if _is_on(pod, name)]
        for key in runs | {(*key_of(pod), uid_of(pod)) for pod in pods}:
            self._parts.loop.wake(self, key)

    def end(self):
        """End every process of every pod."""
        for uid in list(self._runs):
            self._forget(uid)

    def _delay(self, change, pod):
        is_new = change != "DELETED" and uid_of(pod) not in self._runs
        return self._parts.times.start_s if is_new else 0.0

    def _begin(self, pod):
        containers = {row["name"]: ContainerRun() for row in pod["spec"]["containers"]}
        return PodRun(uid_of(pod), pod["spec"]["nodeName"], key_of(pod), containers)

    def _runs_of(self, node):
        return [run for run in list(self._runs.values()) if run.node == node]

    def _note_exit(self, uid, container, code, *, is_oom=False):
        """Called by the runtime, in a thread of its own."""
        self._exits[uid, container] = (code, is_oom)
        if run := self._runs.get(uid):
            self._parts.loop.wake(self, (*run.key, uid))

    def _read_exits(self, pod, run):
        for name, container in run.containers.items():
            if not container.is_running or (run.uid, name) not in self._exits:
                continue
            code, is_oom = self._exits.pop((run.uid, name))
            started = container.state["running"]["startedAt"]
            container.state = compose_exit(code, started, self._parts.now_s, is_oom=is_oom)
            if code and (message := self._read_message(pod, run, name)):
                container.state["terminated"]["message"] = message

    def _read_message(self, pod, run, name):
        """The end of a failed container's log, if its manifest asks for it."""
        row = next(row for row in pod["spec"]["containers"] if row["name"] == name)
        path = self._runtime.log_path(run.uid, name)
        if path is None or row.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return ""
        return path.read_bytes()[-MESSAGE_BYTES_MAX:].decode(errors="replace")

    def _advance(self, pod, run):
        now_s, times = self._parts.now_s, self._parts.times
        if not run.is_accepted:
            run.is_accepted = True
            run.open_at_s = now_s + times.sandbox_s
            self._report(pod, run, has_sandbox=False)
        elif not run.address:
            if now_s >= run.open_at_s and self._open(pod, run):
                run.start_at_s = now_s + times.container_s
                self._report(pod, run)
        elif now_s >= run.start_at_s:
            self._starter.start_due(pod, run)
            if run.has_ended:
                self._report_ended(pod, run)
            else:
                self._report(pod, run)
        self._wake_at(run, self._next_s(run))

    def _open(self, pod, run):
        try:
            run.address = self._runtime.open_pod(pod)
        except VolumeRefused as error:
            self._record(pod, WARNING, "FailedMount", str(error))
            run.open_at_s = self._parts.now_s + self._parts.times.config_retry_s
            return False
        self._refresh_hosts()
        return True

    def _next_s(self, run):
        if not run.address:
            return run.open_at_s
        if not run.has_begun and run.start_at_s > self._parts.now_s:
            return run.start_at_s
        if run.has_ended:
            return run.final_at_s
        waiting = [c.retry_at_s for c in run.containers.values() if "waiting" in c.state]
        return min(waiting, default=None)

    def _report_ended(self, pod, run):
        """First the exit codes, and after a moment the last phase."""
        if run.final_at_s is None:
            run.final_at_s = self._parts.now_s + self._parts.times.exit_s
        self._report(pod, run, is_final=self._parts.now_s >= run.final_at_s)

    def _terminate(self, pod, run):
        if run.remove_at_s is not None:
            self._remove_when_due(pod, run)
            return
        if status_of(pod).get("phase") in FINAL_PHASES:
            self._remove_after(pod, run, 0.0)
        elif run.has_ended:
            self._report(pod, run)
            self._remove_after(pod, run, self._parts.times.removal_s)
        elif any(container.is_running for container in run.containers.values()):
            self._stop(pod, run)
        else:
            self._abandon(pod, run)

    def _stop(self, pod, run):
        """SIGTERM, and SIGKILL after the grace period."""
        now_s = self._parts.now_s
        grace_s = pod["metadata"].get("deletionGracePeriodSeconds", 0)
        for name, container in run.containers.items():
            if container.is_running and not container.is_killed:
                container.is_killed = True
                path = f"spec.containers{{{name}}}"
                self._record(pod, NORMAL, "Killing", f"Stopping container {name}", path)
                self._runtime.signal(run.uid, name, signal.SIGTERM)
            elif "waiting" in container.state:
                container.state = {"terminated": dict(NO_CONTAINER)}
        if run.kill_at_s is None:
            run.kill_at_s = now_s + grace_s
        if now_s >= run.kill_at_s:
            for name, container in run.containers.items():
                if container.is_running:
                    self._runtime.signal(run.uid, name, signal.SIGKILL)
        else:
            self._wake_at(run, run.kill_at_s)

    def _abandon(self, pod, run):
        """End a pod none of whose containers ran."""
        for container in run.containers.values():
            if not container.is_over:
                container.state = dict(CREATING)
        self._report(pod, run)
        pod = self._report(self._latest(pod), run, has_sandbox=False)
        for container in run.containers.values():
            container.state = {"terminated": dict(NO_CONTAINER)}
        self._report(self._latest(pod), run, has_sandbox=False)
        self._remove_after(pod, run, 0.0)

    def _remove_after(self, pod, run, wait_s):
        run.remove_at_s = self._parts.now_s + wait_s
        self._remove_when_due(pod, run)

    def _remove_when_due(self, pod, run):
        if self._parts.now_s < run.remove_at_s:
            self._wake_at(run, run.remove_at_s)
            return
        if pod["metadata"].get("deletionGracePeriodSeconds"):
            namespace, name = key_of(pod)
            with suppress(NotFound):
                self._parts.store.delete(
                    POD_KIND, namespace, name, uid=run.uid, propagation="Background", grace_s=0
                )

    def _latest(self, pod):
        return self._parts.store.get(POD_KIND, *key_of(pod))

    def _report(self, pod, run, *, is_final=True, has_sandbox=True):
        status = compose_pod_status(
            pod,
            run.states,
            self._parts.now_s,
            address=run.address,
            host=NODE_ADDRESS,
            is_final=is_final,
            has_sandbox=has_sandbox,
        )
        if status == pod.get("status"):
            return pod
        return self._parts.store.update({**pod, "status": status}, subresource="status")

    def _forget(self, uid):
        run = self._runs.pop(uid, None)
        if run is not None:
            self._runtime.close_pod(uid)
            for name in run.containers:
                self._exits.pop((uid, name), None)
            self._refresh_hosts()

    def _refresh_hosts(self):
        pods = {uid: self._parts.cache.get(POD_KIND, run.key) for uid, run in self._runs.items()}
        addressed = [
            (pods[uid], run) for uid, run in self._runs.items() if pods[uid] and run.address
        ]
        services = self._parts.cache.all_of("Service")
        for pod, run in addressed:
            namespace = run.key[0]
            peers = [
                (peer, other.address) for peer, other in addressed if other.key[0] == namespace
            ]
            own = [row for row in services if row["metadata"]["namespace"] == namespace]
            self._runtime.write_hosts(run.uid, compose_hosts(pod, run.address, peers, own))

    def _wake_at(self, run, at_s):
        if at_s is not None:
            wait_s = max(0.0, at_s - self._parts.now_s)
            self._parts.loop.wake(self, (*run.key, run.uid), wait_s)

    def _record(self, pod, severity, reason, message, path=None):
        self._parts.recorder.record(pod, severity, reason, message, SOURCE, field_path=path)


def _is_on(pod, node):
    return pod["spec"].get("nodeName") == node
