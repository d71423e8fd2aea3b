"""What the answers of a probe's containers say: pure functions from times and users to findings."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from trainshed.engines.base import EngineFinding
from trainshed.engines.kubernetes.probing.pods import CONTAINERS, LAUNCHER, PRIMARY, WORKER

#: A longer delay of the shared claim, in seconds, is reported as bad: log lines and ends of jobs
#: have the same delay.
_LATE_S: Final = 5.0
#: A larger difference of clocks, in seconds, is reported as bad.
_CLOCK_S: Final = 2.0
_CACHES: Final = "mount the claim with shorter attribute caches (NFS: actimeo=1)"


class ProbeAnswer(NamedTuple):
    """The answer of one container.  Times are in seconds since 1970."""

    node: str
    user: int
    """The user id of the container's program."""
    owner: int
    """The owner of its files, as the server sees them."""
    greeted_s: float
    """When the container wrote its greeting, by its clock."""
    received_s: float
    """When the server read the greeting and replied, by the server's clock."""
    replied_s: float | None = None
    """When the container saw the reply, by its clock; None: it did not see it in time."""
    address: str = ""
    """The address of the other pod; empty: its name was not known in time."""
    resolve_s: float = 0.0
    """The seconds until the address was known."""


class ClaimDelays(NamedTuple):
    """The delays of the shared claim between a pod and the server, in seconds."""

    to_server_s: float
    to_pod_s: float
    clock_s: float
    """The least difference of the clocks that explains the times; 0: none is needed."""


def measure_delays(answer: ProbeAnswer) -> ClaimDelays:
    """Return the delays of a container's files and of the server's files.

    Without the reply, the delay to the pod is infinite.
    """
    if answer.replied_s is None:
        return ClaimDelays(max(0.0, answer.received_s - answer.greeted_s), float("inf"), 0.0)
    # the server's clock minus the pod's: a file is read after it was written
    lowest_s, highest_s = answer.received_s - answer.replied_s, answer.received_s - answer.greeted_s
    ahead_s = min(max(0.0, lowest_s), highest_s)
    return ClaimDelays(highest_s - ahead_s, ahead_s - lowest_s, abs(ahead_s))


def judge_answers(
    answers: Mapping[str, ProbeAnswer], *, posted_s: float, server_user: int
) -> Iterator[EngineFinding]:
    """Yield the findings of a probe of which every container has answered.

    ``posted_s``: when the server sent the JobSet; ``server_user``: the user id of the server.
    """
    nodes = sorted({answers[name].node for name in CONTAINERS})
    users = sorted({answers[name].user for name in (PRIMARY, WORKER)})
    yield EngineFinding(
        "interpreter of the claim",
        is_well=True,
        found=f"runs on {', '.join(nodes)}, as the user {', '.join(map(str, users))} of the image",
    )
    yield from _judge_claim(answers)
    yield _judge_owner(answers[LAUNCHER], server_user)
    yield from _judge_clocks(answers)
    yield _judge_names(answers)
    first_line_s = max(0.0, answers[PRIMARY].received_s - posted_s)
    yield EngineFinding(
        "first line",
        is_well=True,
        found=f"{first_line_s:.2f} s after the POST of the JobSet",
    )


def _judge_claim(answers: Mapping[str, ProbeAnswer]) -> Iterator[EngineFinding]:
    delays = {answers[name].node: measure_delays(answers[name]) for name in CONTAINERS}
    node = max(delays, key=lambda name: delays[name].to_pod_s)
    to_pod_s = delays[node].to_pod_s
    is_visible = to_pod_s != float("inf")
    after = f"after {to_pod_s:.1f} s" if is_visible else "not in time"
    yield EngineFinding(
        "shared claim, seen from a pod",
        is_well=to_pod_s <= _LATE_S,
        found=f"a pod on {node} saw a new file of the server {after}",
        advice=_CACHES,
    )
    node = max(delays, key=lambda name: delays[name].to_server_s)
    to_server_s = delays[node].to_server_s
    yield EngineFinding(
        "shared claim, seen from the server",
        is_well=to_server_s <= _LATE_S,
        found=f"the server saw a new file of a pod on {node} after {to_server_s:.1f} s",
        advice=f"{_CACHES}: log lines and ends of jobs have the same delay",
    )


def _judge_owner(launcher: ProbeAnswer, server_user: int) -> EngineFinding:
    """Judge whether the launcher's files are the server's own: a file server may change owners."""
    is_well = launcher.owner == launcher.user == server_user
    return EngineFinding(
        "owner of files",
        is_well=is_well,
        found=f"launchers run as the user {launcher.user}, and the server, the user {server_user}, "
        f"sees the user {launcher.owner} as the owner of their files",
        advice="let the file server change no owners of this user (NFS: no squash of its id), and "
        "run the server with an id that pods may have",
    )


def _judge_clocks(answers: Mapping[str, ProbeAnswer]) -> Iterator[EngineFinding]:
    clocks = {answers[name].node: measure_delays(answers[name]).clock_s for name in CONTAINERS}
    node = max(clocks, key=lambda name: clocks[name])
    yield EngineFinding(
        "clock",
        is_well=clocks[node] <= _CLOCK_S,
        found=f"the clock of {node} differs by at least {clocks[node]:.1f} s"
        if clocks[node]
        else "no difference measured",
        advice="synchronize the clocks of server and nodes (chrony or ntpd)",
    )


def _judge_names(answers: Mapping[str, ProbeAnswer]) -> EngineFinding:
    replicas = [answers[name] for name in (PRIMARY, WORKER)]
    is_well = all(answer.address for answer in replicas)
    seconds = max(answer.resolve_s for answer in replicas)
    nodes = ", ".join(answer.node for answer in replicas if not answer.address)
    return EngineFinding(
        "names of pods",
        is_well=is_well,
        found=f"both pods resolved each other's name in the headless service within {seconds:.1f} s"
        if is_well
        else f"a pod on {nodes} could not resolve the name of the other within {seconds:.0f} s",
        advice="check the DNS service of the cluster, and policies of the network against it",
    )
