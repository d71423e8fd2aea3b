"""Invariants of attempts: their processes, nodes, GPUs and networks."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from trainshed.engines.base import LivingProcess
from trainshed.engines.isolation import modes as isolation_modes
from trainshed.engines.network import kinds
from trainshed.engines.network.rule import CIDR
from trainshed.engines.registry import LOCAL
from trainshed.engines.supervise.leftovers import WEAK
from trainshed.lifecycle.events import Command
from trainshed.model.attempt import ALIVE, AttemptKey, Phase
from trainshed.model.resources import FleetPolicy, Node
from trainshed.model.status import JobState
from trainshed.workbench.doctor.snapshot import (
    Check,
    CheckPart,
    DoctorFinding,
    FolderFacts,
    JobFacts,
    SeatFacts,
    Snapshot,
    check,
)

_AT_WORK: Final = ALIVE | {Phase.WAITING}
_KILL: Final = "if the process is not needed any more, end it: kill -9 {}"


@check(
    "over-has-no-process",
    "No process of an ended job runs.",
    CheckPart.ROWS,
    CheckPart.DISK,
    CheckPart.PROCESSES,
)
def over_has_no_process(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find replicas and supervisors of ended jobs."""
    for process, job in _processes(snapshot):
        if job.is_over:
            yield _survivor(process, job, "still runs though the job is over")
    for key, folder, job in _folders(snapshot):
        if job.is_over and folder.is_held:
            yield DoctorFinding(
                subject=str(key),
                text=f"{job.label}: the supervisor of attempt {key} still runs though the job is "
                "over",
                advice="wait a minute; if the supervisor still runs then, find its process with: "
                f"fuser {folder.path / 'lock'}",
            )


@check(
    "newest-attempt-alone",
    "No process of an older attempt runs while a newer attempt runs or the job waits.",
    CheckPart.ROWS,
    CheckPart.PROCESSES,
)
def newest_attempt_alone(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find processes of older attempts, which would write the same checkpoints."""
    for process, job in _processes(snapshot):
        if job.is_over:
            continue
        if process.key.attempt < job.attempt:
            yield _survivor(process, job, f"belongs to the older attempt {process.key.attempt}")
        elif job.state is JobState.QUEUED:
            yield _survivor(process, job, "still runs though the job waits")


@check(
    "active-is-attended",
    "Every attempt under way has a supervisor, or its end is recorded.",
    CheckPart.ROWS,
    CheckPart.DISK,
    CheckPart.WORK,
)
def active_is_attended(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find active attempts without a supervisor; the next server restarts their jobs."""
    rows = snapshot.rows
    launching = {
        AttemptKey(command.uid, command.attempt)
        for command in rows.commands
        if command.kind is Command.LAUNCH
    }
    for job in rows.jobs.values():
        if job.is_over or job.state.waits or not _is_here(snapshot, job):
            continue
        folder = snapshot.folders.get(job.key)
        if job.key not in launching and (wrong := _unattended(job, folder)):
            yield DoctorFinding(
                subject=str(job.key),
                text=f"{job.label}: {wrong}",
                advice="read the server's log: it says why the job was not restarted"
                if snapshot.server_pid
                else "start the server: it detects the lost attempt and restarts the job",
                is_failure=snapshot.server_pid is not None,
            )
        elif folder is not None and folder.suspended:
            yield DoctorFinding(
                subject=str(job.key),
                text=f"{job.label}: its supervisor, process {folder.suspended}, is suspended: it "
                "writes no log and enforces no limit",
                advice=f"kill -CONT {folder.suspended}; or cancel the job",
            )


@check(
    "engines-agree",
    "Engines on other machines run the attempts that the database has under way.",
    CheckPart.ROWS,
    CheckPart.ENGINES,
)
def engines_agree(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Compare the attempts of engines with queues of their own with the database."""
    rows = snapshot.rows
    for key, phase in snapshot.elsewhere.items():
        job = rows.jobs.get(key.uid)
        if phase in _AT_WORK and (job is None or job.is_over or key.attempt != job.attempt):
            label = job.label if job else "no job of the database"
            yield DoctorFinding(
                subject=str(key),
                text=f"the attempt {key} is {phase.value} at its engine: {label}",
                advice="if this is the right database, end the attempt at its engine; else ignore "
                "it",
            )
    commanded = {AttemptKey(command.uid, command.attempt) for command in rows.commands}
    for job in rows.jobs.values():
        waits = job.is_over or job.state is JobState.QUEUED or job.key in commanded
        job_phase = snapshot.elsewhere.get(job.key, Phase.UNKNOWN)
        if not waits and job.key in rows.claims and job_phase is Phase.UNKNOWN:
            yield DoctorFinding(
                subject=str(job.key),
                text=f"{job.label}: its engine reports no process of it",
                advice="run trainshed explain for its state; if none of its processes runs, an "
                f"administrator can confirm that: trainshed attempts fence {job.key}",
                is_failure=False,
            )


def _unattended(job: JobFacts, folder: FolderFacts | None) -> str:
    if folder is None:
        return f"attempt {job.key} has no folder"
    if folder.is_held or folder.has("Decided", "Ended"):
        return ""
    if job.state is JobState.PREPARING and not folder.has("Began"):
        return f"attempt {job.key} was never begun"
    return f"attempt {job.key} has no supervisor, and no end is recorded"


@check(
    "nodes-not-overfull",
    "No node holds more than its slots, GPUs, CPUs and memory.",
    CheckPart.ROWS,
)
def nodes_not_overfull(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Compare the seats on each node with its size, by the node's policy."""
    rows = snapshot.rows
    seats: dict[tuple[str, str], list[SeatFacts]] = defaultdict(list)
    for job in rows.jobs.values():
        is_ours = job.holds and job.key not in rows.claims
        for seat in rows.attempts.get(job.key, ()) if is_ours else ():
            seats[seat.engine, seat.node].append(seat)
    for row in rows.nodes:
        name = row.node.name
        for wrong in _overfull(row.node, [*seats["", name], *seats[row.engine, name]]):
            yield DoctorFinding(
                subject=f"{row.node.name}: {wrong}",
                text=f"node {row.node.name} holds {wrong}",
                advice="if the node was made smaller, wait for the end of the jobs on it; "
                "else report it",
            )


def _overfull(node: Node, seats: list[SeatFacts]) -> Iterator[str]:
    if len(seats) > node.slots:
        yield f"{len(seats)} replicas and has {node.slots} slots"
    gpus, gpu_count = sum(seat.gpus for seat in seats), sum(node.gpus.values())
    if node.policy is not FleetPolicy.EMULATE and gpus > gpu_count:
        yield f"{gpus} GPUs and has {gpu_count}"
    if node.policy is not FleetPolicy.EXACT:
        return
    if (vcpus := sum(seat.vcpus for seat in seats)) > node.vcpus:
        yield f"{vcpus} vCPUs and has {node.vcpus}"
    if (memory := sum(seat.memory_gb for seat in seats)) > node.memory_gb:
        yield f"{memory:g} GB of memory and has {node.memory_gb:g}"


@check("gpus-not-shared", "No GPU is used by two running attempts.", CheckPart.PROCESSES)
def gpus_not_shared(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find shared GPUs by the device's own id, independent of CUDA_VISIBLE_DEVICES."""
    users: dict[str, set[AttemptKey]] = defaultdict(set)
    for process in snapshot.processes:
        for device in process.devices:
            users[device].add(process.key)
    for device, keys in users.items():
        if len(keys) > 1:
            owners = " and ".join(map(str, sorted(keys)))
            yield DoctorFinding(
                subject=device,
                text=f"the GPU {device} is used by the attempts {owners}",
                advice="cancel one of the jobs, and report it",
            )


@check("programs-behind-walls", "Programs cannot access other projects.", CheckPart.ROWS)
def programs_behind_walls(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find nodes that run programs without isolation."""
    for row in snapshot.rows.nodes:
        if row.node.isolation == isolation_modes.NONE:
            yield DoctorFinding(
                subject=f"{row.node.name}: {row.node.isolation}",
                text=f"node {row.node.name} runs programs with isolation none: they have "
                "all rights of the server's user",
                advice="set [isolation] mode and require (docs/reference/config.md)",
                is_failure=False,
            )


@check("jobs-have-networks", "Jobs do not reach each other's ports.", CheckPart.ROWS)
def jobs_have_networks(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find nodes that cannot give jobs a network; nodes configured without networks pass."""
    for row in snapshot.rows.nodes:
        kind, _, why = row.node.network.partition(": ")
        if kind == kinds.HOST and why:
            yield DoctorFinding(
                subject=f"{row.node.name}: {kind}",
                text=f"jobs of node {row.node.name} have the network of the machine: {why}",
                advice="see docs/reference/isolation.md#network for the requirements, or "
                'set [isolation] network = "host"',
                is_failure=False,
            )


@check(
    "networks-end-with-jobs",
    "A job's network is removed when its supervisor ends.",
    CheckPart.PROCESSES,
)
def networks_end_with_jobs(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find processes and links of networks without a supervisor."""
    for pid in snapshot.networks.left_over:
        yield DoctorFinding(
            subject=f"slirp4netns: {pid}",
            text=f"process {pid} (slirp4netns) connects a job whose supervisor has ended",
            advice=_KILL.format(pid),
        )
    for link in snapshot.networks.links:
        yield DoctorFinding(
            subject=f"link: {link}",
            text=f"the link {link} of this machine has an address that belongs to jobs' networks",
            advice=f"ip link delete {link}, if no other program of the machine uses {CIDR}",
        )


@check(
    "ports-are-held",
    "The ports of a server stay open while no server runs but jobs do.",
    CheckPart.WORK,
)
def ports_are_held(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find a recorded holder of ports that has ended; with systemd none is recorded."""
    is_at_work = snapshot.server_pid or any(folder.is_held for folder in snapshot.folders.values())
    if snapshot.lost_holder is not None and is_at_work:
        yield DoctorFinding(
            subject=f"holder: {snapshot.lost_holder}",
            text=f"process {snapshot.lost_holder}, which held the ports of the server, has ended",
            advice="the server starts another holder within a minute; if not, read its log"
            if snapshot.server_pid
            else "start the server before a program of a job gets its ports",
            is_failure=False,
        )


@check(
    "leftovers-can-be-ended",
    "Processes that a killed supervisor leaves can always be ended.",
    CheckPart.ROWS,
)
def leftovers_can_be_ended(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find nodes without cgroups."""
    for row in snapshot.rows.nodes:
        if row.node.leftovers in WEAK:
            yield DoctorFinding(
                subject=f"{row.node.name}: {row.node.leftovers}",
                text=f"node {row.node.name} has no cgroup for its jobs, only a "
                f"{row.node.leftovers}: a process can deliberately outlive its job",
                advice="set Delegate=yes in the server's unit (docs/how-to/run-the-service.md)",
                is_failure=False,
            )


def _processes(snapshot: Snapshot) -> Iterator[tuple[LivingProcess, JobFacts]]:
    """Yield processes of known jobs; others may belong to another data directory."""
    jobs = snapshot.rows.jobs
    for process in snapshot.processes:
        if job := jobs.get(process.key.uid):
            yield process, job


def _folders(snapshot: Snapshot) -> Iterator[tuple[AttemptKey, FolderFacts, JobFacts]]:
    jobs = snapshot.rows.jobs
    for key, folder in snapshot.folders.items():
        if job := jobs.get(key.uid):
            yield key, folder, job


def _is_here(snapshot: Snapshot, job: JobFacts) -> bool:
    """Return whether the local engine runs the job's replicas on this machine."""
    rows = snapshot.rows
    local_nodes = {row.node.name for row in rows.nodes if row.engine == LOCAL.name} & {
        snapshot.machine
    }
    return any(seat.node in local_nodes for seat in rows.attempts.get(job.key, ()))


def _survivor(process: LivingProcess, job: JobFacts, why: str) -> DoctorFinding:
    return DoctorFinding(
        subject=f"{process.key}: {process.pid}",
        text=f"{job.label}: process {process.pid} ({process.command}) {why}",
        advice=_KILL.format(process.pid),
    )


CHECKS: Final[tuple[Check, ...]] = (
    newest_attempt_alone,
    over_has_no_process,
    active_is_attended,
    engines_agree,
    nodes_not_overfull,
    gpus_not_shared,
    programs_behind_walls,
    jobs_have_networks,
    networks_end_with_jobs,
    ports_are_held,
    leftovers_can_be_ended,
)
