"""The configuration of the Slurm of the tests."""

import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FREEZER = Path("/sys/fs/cgroup/freezer")


@dataclass(frozen=True, slots=True)
class Settings:
    """In what clusters differ."""

    nodes: int = 6
    cpus: int = 16
    memory_mib: int = 64_000
    gpus: Mapping[str, int] = field(default_factory=lambda: {"t4": 4})
    """Slurm's words for the GPUs of each node, and how many it has of each."""
    own_gpus: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """The same for nodes that have others, by their number from 1."""
    cloud: int = 0
    """Of the nodes, the last are powered down until ``start_node`` boots them."""
    min_job_age_s: int = 300
    """How long it knows of what has ended."""
    grace_s: int = 0
    """What jobs have to save when others, in the partition ``urgent``, take their nodes."""
    max_time: str = "INFINITE"
    """The longest that a job may run in the partition ``main``."""
    lines: Sequence[str] = ()
    """More of ``slurm.conf``."""
    release: str = os.environ.get("TRAINSHED_SLURM_RELEASE", "")
    """The folder of another release of Slurm, as ``release.sh`` makes it; "": the installed."""


def compose_files(
    settings: Settings, folder: Path, nodes: Sequence[str]
) -> Mapping[str, Iterable[str]]:
    """Compose the lines of each file, for daemons with all their files in a folder."""
    return {
        "slurm.conf": _compose(settings, folder, nodes),
        "gres.conf": _list_devices(settings, folder, nodes),
        "cgroup.conf": CGROUP,
    }


def gpus_of(settings: Settings, number: int) -> Mapping[str, int]:
    """Return the GPUs of a node by its number from 1."""
    return settings.own_gpus.get(number, settings.gpus)


def _list_devices(settings: Settings, folder: Path, nodes: Sequence[str]) -> Iterator[str]:
    for number, node in enumerate(nodes, 1):
        first = 0
        for word, count in gpus_of(settings, number).items():
            files = f"{folder}/dev/nvidia[{first}-{first + count - 1}]"
            yield f"NodeName={node} Name=gpu Type={word} File={files}"
            first += count


def _compose(settings: Settings, folder: Path, nodes: Sequence[str]) -> Iterator[str]:
    host = socket.gethostname().split(".")[0]
    tracked = "cgroup" if FREEZER.is_dir() else "linuxproc"
    yield from (line.format(folder=folder, host=host, tracked=tracked) for line in COMMON)
    yield f"MinJobAge={settings.min_job_age_s}"
    yield from settings.lines
    size = f"CPUs={settings.cpus} RealMemory={settings.memory_mib}"
    for number, node in enumerate(nodes, 1):
        address = f"NodeHostname={host} NodeAddr=127.0.0.1 Port={17100 + number}"
        counts = gpus_of(settings, number).items()
        gres = ",".join(f"gpu:{word}:{count}" for word, count in counts)
        more = f" Gres={gres}" if gres else ""
        more += " State=CLOUD" if number > settings.nodes - settings.cloud else ""
        yield f"NodeName={node} {address} {size}{more}"
    yield from CLOUD if settings.cloud else ()
    yield "PreemptType=preempt/partition_prio"
    yield "PreemptMode=CANCEL"
    for name, more in (
        (
            "main Default=YES PriorityTier=1",
            f"MaxTime={settings.max_time} GraceTime={settings.grace_s}",
        ),
        ("urgent PriorityTier=2", "MaxTime=INFINITE PreemptMode=OFF"),
    ):
        yield f"PartitionName={name} Nodes=ALL State=UP {more}"


COMMON = (
    "ClusterName=trainshed",
    "SlurmctldHost={host}(127.0.0.1)",
    "SlurmUser=root",
    "SlurmdUser=root",
    "AuthType=auth/munge",
    "CredType=cred/munge",
    "AuthInfo=socket={folder}/munge/socket",
    "SlurmctldPort=17000",
    "StateSaveLocation={folder}/state",
    "SlurmctldPidFile={folder}/run/slurmctld.pid",
    "SlurmctldLogFile={folder}/log/slurmctld.log",
    "SlurmdPidFile={folder}/run/slurmd.%n.pid",
    "SlurmdSpoolDir={folder}/spool/%n",
    "SlurmdLogFile={folder}/log/slurmd.%n.log",
    "CommunicationParameters=NoInAddrAny",
    "SlurmdParameters=config_overrides",
    "ProctrackType=proctrack/{tracked}",
    "TaskPlugin=task/none",
    "SelectType=select/cons_tres",
    "SelectTypeParameters=CR_CPU_Memory",
    "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1,sched_interval=1",
    "AccountingStorageType=accounting_storage/none",
    "JobAcctGatherType=jobacct_gather/none",
    "JobCompType=jobcomp/filetxt",
    "JobCompLoc={folder}/log/jobcomp.txt",
    "SlurmdTimeout=10",
    "ReturnToService=2",
    "KillWait=5",
    "MaxJobCount=50000",
    "MailProg=/bin/true",
    "MpiDefault=none",
    "DefMemPerCPU=100",
    "GresTypes=gpu",
)
#: Slurm waits for nodes that it has powered up, until a test boots them.  22.05 lists those that
#: are powered down only with the last line.
CLOUD = (
    "SuspendProgram=/bin/true",
    "ResumeProgram=/bin/true",
    "SuspendTime=36000",
    "SuspendTimeout=1",
    "ResumeTimeout=3600",
    "ResumeRate=0",
    "PrivateData=cloud",
)
CGROUP = (
    "CgroupPlugin=cgroup/v1",
    "CgroupMountpoint=/sys/fs/cgroup",
    "CgroupAutomount=no",
    "ConstrainDevices=no",
    "ConstrainCores=no",
    "ConstrainRAMSpace=no",
)
