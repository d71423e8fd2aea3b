"""How a kubelet starts a container: the image, the configuration, then the process."""

from k8s.emulator.controllers.recorder import NORMAL, WARNING
from k8s.emulator.pods.environment import ConfigRefused, build_environment
from k8s.emulator.pods.images import ImageRefused, explain_bad_name
from k8s.emulator.pods.orders import compose_order
from k8s.emulator.pods.pod_run import StartRefused, VolumeRefused
from k8s.emulator.pods.pod_status import (
    compose_running,
    compose_start_error,
    compose_waiting,
)

SOURCE = "kubelet"
NODE_ADDRESS = "10.88.0.1"
BACK_OFF_EVENT_S = 0.15


class ContainerStarter:
    def __init__(self, parts, runtime, images):
        self._parts, self._runtime, self._images = parts, runtime, images

    def start_due(self, pod, run):
        """Try every container that waits and is due."""
        for container in pod["spec"]["containers"]:
            attempt = run.containers[container["name"]]
            if "waiting" in attempt.state and self._parts.now_s >= attempt.retry_at_s:
                self._try(pod, run, container, attempt)

    def _try(self, pod, run, container, attempt):
        name = container["image"]
        if reason := explain_bad_name(name):
            self._tell(pod, container, WARNING, "InspectFailed", reason)
            self._hold(pod, container, attempt, "InvalidImageName", reason)
            return
        self._tell_absent_secrets(pod)
        try:
            image = self._images.find(name)
        except ImageRefused as error:
            self._pull(pod, container, attempt, str(error))
            return
        self._tell_pulled(pod, container, attempt)
        try:
            values = self._read_environment(pod, run, container)
            order = compose_order(pod, container, image, values)
        except ConfigRefused as error:
            self._refuse(pod, container, attempt, str(error))
            return
        if not order.argv:
            message = f'failed to generate container "{order.name}" spec: no command specified'
            self._refuse(pod, container, attempt, message, reason="CreateContainerError")
            return
        self._start(pod, container, attempt, order)

    def _tell_absent_secrets(self, pod):
        """A kubelet pulls without the secrets that it cannot read, and tells their names."""
        namespace = pod["metadata"]["namespace"]
        names = [row["name"] for row in pod["spec"].get("imagePullSecrets") or ()]
        absent = [n for n in names if self._parts.cache.get("Secret", (namespace, n)) is None]
        if absent:
            words = f"Unable to retrieve some image pull secrets ({', '.join(absent)})"
            message = f"{words}; attempting to pull the image may not succeed."
            reason = "FailedToRetrieveImagePullSecret"
            self._parts.recorder.record(pod, WARNING, reason, message, SOURCE)

    def _start(self, pod, container, attempt, order):
        self._tell(pod, container, NORMAL, "Created", "Container created")
        try:
            self._runtime.start(pod, order)
        except VolumeRefused as error:
            self._refuse(pod, container, attempt, str(error))
        except StartRefused as error:
            message = (
                "failed to create containerd task: failed to create shim task: OCI runtime create "
                f"failed: runc create failed: unable to start container process: {error}: unknown"
            )
            self._tell(pod, container, WARNING, "Failed", f"Error: {message}")
            attempt.state = compose_start_error(message, self._parts.now_s)
        else:
            self._tell(pod, container, NORMAL, "Started", "Container started")
            attempt.state = compose_running(self._parts.now_s)

    def _read_environment(self, pod, run, container):
        namespace = pod["metadata"]["namespace"]

        def read(kind, name):
            return self._parts.cache.get(kind, (namespace, name))

        return build_environment(
            pod, container, read, node_address=NODE_ADDRESS, pod_address=run.address
        )

    def _tell_pulled(self, pod, container, attempt):
        image = container["image"]
        words = (
            f'Container image "{image}" already present on machine and can be accessed by the pod'
        )
        if attempt.pulls or container.get("imagePullPolicy") == "Always":
            self._tell(pod, container, NORMAL, "Pulling", f'Pulling image "{image}"')
            words = f'Successfully pulled image "{image}" in 1ms (1ms including waiting)'
        self._tell(pod, container, NORMAL, "Pulled", words)

    def _pull(self, pod, container, attempt, reason):
        """A pull that fails: it takes a while, then the kubelet backs off longer and longer."""
        times, now_s, image = self._parts.times, self._parts.now_s, container["image"]
        if attempt.is_backing_off:
            attempt.is_backing_off = False
            back_off = f'Back-off pulling image "{image}"'
            self._tell(pod, container, NORMAL, "BackOff", back_off)
            message = f"{back_off}: ErrImagePull: {reason}"
            self._hold(pod, container, attempt, "ImagePullBackOff", message)
            wait_s = times.pull_backoff_s * 2 ** (attempt.pulls - 1)
            attempt.retry_at_s = now_s + min(wait_s, times.pull_backoff_max_s)
        elif attempt.pull_ends_at_s is None:
            self._tell(pod, container, NORMAL, "Pulling", f'Pulling image "{image}"')
            attempt.pull_ends_at_s = attempt.retry_at_s = now_s + times.pull_s
        else:
            attempt.pull_ends_at_s = None
            attempt.pulls += 1
            text = f'Failed to pull image "{image}": {reason}'
            self._tell(pod, container, WARNING, "Failed", text)
            self._hold(pod, container, attempt, "ErrImagePull", reason)
            attempt.is_backing_off = True
            attempt.retry_at_s = now_s + min(BACK_OFF_EVENT_S, times.pull_backoff_s / 4)

    def _hold(self, pod, container, attempt, reason, message):
        self._tell(pod, container, WARNING, "Failed", f"Error: {reason}")
        attempt.state = compose_waiting(reason, message)
        attempt.retry_at_s = self._parts.now_s + self._parts.times.config_retry_s

    def _refuse(self, pod, container, attempt, message, *, reason="CreateContainerConfigError"):
        """A Secret, a key or a path of a volume is absent; it may come."""
        self._tell(pod, container, WARNING, "Failed", f"Error: {message}")
        attempt.state = compose_waiting(reason, message)
        attempt.retry_at_s = self._parts.now_s + self._parts.times.config_retry_s

    def _tell(self, pod, container, severity, reason, message):
        path = f"spec.containers{{{container['name']}}}"
        self._parts.recorder.record(pod, severity, reason, message, SOURCE, field_path=path)
