"""The status of a pod from the states of its containers, as a kubelet reports it; pure."""

import copy

from k8s.emulator.controllers.objects import set_condition, stamp

CREATING = {"waiting": {"reason": "ContainerCreating"}}
NO_CONTAINER = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
}
EPOCH = "1970-01-01T00:00:00Z"
OOM_KILLED, COMPLETED, ERROR, START_ERROR = "OOMKilled", "Completed", "Error", "StartError"
START_ERROR_CODE = 128


def compose_running(now_s):
    return {"running": {"startedAt": stamp(now_s)}}


def compose_waiting(reason, message=""):
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def compose_exit(code, started_at, now_s, *, is_oom=False):
    """A container's end; the reason follows the exit code unless memory ran out."""
    reason = COMPLETED if code == 0 else ERROR
    row = {"exitCode": code, "reason": OOM_KILLED if is_oom and code else reason}
    return {"terminated": {**row, "startedAt": started_at, "finishedAt": stamp(now_s)}}


def compose_start_error(message, now_s):
    row = {"exitCode": START_ERROR_CODE, "reason": START_ERROR, "message": message}
    return {"terminated": {**row, "startedAt": EPOCH, "finishedAt": stamp(now_s)}}


def phase_of(states):
    """A pod's phase; a container that waits keeps it Pending while others run."""
    kinds = [next(iter(state)) for state in states]
    if "waiting" in kinds:
        return "Pending"
    if "running" in kinds:
        return "Running"
    is_failed = any(state["terminated"]["exitCode"] for state in states)
    return "Failed" if is_failed else "Succeeded"


def compose_pod_status(  # noqa: PLR0913 - what a kubelet knows of a pod
    pod, states, now_s, *, address="", host="", is_final=True, has_sandbox=True
):
    """``states`` by the containers' names; without ``is_final`` an ended pod keeps its phase."""
    status = copy.deepcopy(pod.get("status") or {})
    phase = phase_of(states.values())
    is_over = phase in {"Succeeded", "Failed"}
    if is_final or not is_over:
        status["phase"] = phase
    set_condition(
        status,
        _condition("PodReadyToStartContainers", has_sandbox and not (is_over and is_final)),
        now_s,
    )
    initialized = _condition("Initialized", True)
    if phase == "Succeeded":
        initialized["reason"] = "PodCompleted"
    set_condition(status, initialized, now_s)
    for name in ("Ready", "ContainersReady"):
        set_condition(status, _readiness(name, phase, states), now_s)
    status["hostIP"] = host
    status.setdefault("startTime", stamp(now_s))
    is_begun = any(state != CREATING for state in states.values())
    if address and is_begun:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    status["containerStatuses"] = [
        _container_row(container, states[container["name"]])
        for container in pod["spec"]["containers"]
    ]
    return status


def _readiness(name, phase, states):
    unready = [key for key, state in states.items() if "running" not in state]
    row = _condition(name, not unready)
    has_run = any(state.get("terminated") != NO_CONTAINER for state in states.values())
    if phase in {"Succeeded", "Failed"} and has_run:
        row["reason"] = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    elif unready:
        row["reason"] = "ContainersNotReady"
        row["message"] = f"containers with unready status: [{' '.join(unready)}]"
    return row


def _condition(name, is_true):
    return {"type": name, "status": "True" if is_true else "False"}


def _container_row(container, state):
    is_running = "running" in state
    return {
        "name": container["name"],
        "state": copy.deepcopy(state),
        "lastState": {},
        "ready": is_running,
        "restartCount": 0,
        "image": container["image"],
        "imageID": "",
        "started": is_running,
    }
