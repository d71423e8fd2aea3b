"""What each mode does about each attempt: the one table, which tests hold and the docs print.

Without walls everything can be done, behind walls nothing; what is otherwise stands here, with its
reason.  A name with ``*`` stands for all attempts that it fits.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from isolation import python_image
from isolation.hostile import ATTEMPTS

DONE, DENIED, ABSENT = "done", "denied", "absent"
ROOT = 0
#: A user that has no name, no folder and no process on any machine.
USER = 61_234


@dataclass(frozen=True)
class Mode:
    """A server as it is started, and what it makes of an attempt that has no row of its own."""

    name: str
    uid: int
    config: str
    otherwise: str = DENIED
    image: str = "registry.test/p/img:1"
    """What its jobs name; the Python of the tests stands in for that one."""

    @property
    def is_container(self) -> bool:
        """Whether its jobs run in an image of their own."""
        return self.image == python_image.IMAGE


def _mode(name, uid, setting, otherwise=DENIED, more=""):
    return Mode(name, uid, f'[isolation]\nmode = "{setting}"\n{more}', otherwise)


ALLOWED = "allow_root_jobs = true\n"
HOST, OWN = 'network = "host"\n', 'network = "job"\n'
NONE_ROOT = _mode("none, root", ROOT, "none", DONE, ALLOWED)
NONE_USER = _mode("none, a user", USER, "none", DONE)
LANDLOCK = _mode("landlock", USER, "landlock")
SANDBOX = _mode("sandbox", USER, "sandbox", more=HOST)
USERS = _mode("users", ROOT, "users", more=HOST)
OWN_SANDBOX = _mode("sandbox, own network", USER, "sandbox", more=OWN)
OWN_USERS = _mode("users, own network", ROOT, "users", more=OWN)


def _containers(name, uid, runtime):
    config = f'[isolation]\nmode = "container"\n[fleet]\ncontainer_runtime = "{runtime}"\n'
    return Mode(name, uid, config, image=python_image.IMAGE)


DOCKER = _containers("docker", ROOT, "docker")
PODMAN = _containers("podman, root", ROOT, "podman")
ROOTLESS = _containers("podman, rootless", USER, "podman")
CONTAINERS = (DOCKER, PODMAN, ROOTLESS)
OWN_NETWORK = (OWN_USERS, OWN_SANDBOX)
HOST_NETWORK = (USERS, SANDBOX, LANDLOCK)
PROCESSES = (*OWN_NETWORK, *HOST_NETWORK)
WALLS = (*CONTAINERS, *PROCESSES)
MODES = (*WALLS, NONE_USER, NONE_ROOT)


@dataclass(frozen=True)
class Row:
    """What is otherwise, in which modes, and why."""

    names: str
    outcome: str
    modes: tuple[Mode, ...]
    reason: str

    def fits(self, name, mode):
        return mode in self.modes and any(
            fnmatchcase(name, pattern) for pattern in self.names.split()
        )


#: The first that fits counts.
ROWS = (
    Row(
        "connect_to_docker", ABSENT, (PODMAN, ROOTLESS, *PROCESSES, NONE_USER, NONE_ROOT),
        "tried with docker alone",
    ),
    Row("use_api_without_token", DENIED, MODES, "the API asks for a token, whoever calls"),
    Row(
        "order_supervisor order_foreign_supervisor", DENIED, MODES,
        "an order holds a secret, and the kernel says which process sends",
    ),
    Row(
        "forge_log_of_foreign_job", DENIED, MODES,
        "an order holds a secret, and the kernel says which process sends",
    ),
    Row(
        "find_foreign_attempt_in_command_lines", DENIED, MODES,
        "no command line of ours holds the folder of an attempt",
    ),
    Row("tunnel_to_*", DENIED, MODES, "the gateway leads tunnels to other machines alone"),
    Row(
        "slip_lines_to_proxy send_two_hosts", DENIED, MODES,
        "the gateway refuses a head that may be read in two ways",
    ),
    Row(
        "hold_all_tunnels use_up_descriptors_of_server", DENIED, MODES,
        "a job holds no more than it leaves to others",
    ),
    Row(
        "take_ports_from_holder", DENIED, MODES,
        "what keeps the ports answers no process of a job",
    ),
    Row(
        "break_server_by_shrinking_file", DENIED, MODES,
        "the connection ends, with a line in the server's log",
    ),
    Row(
        "join_foreign_job_unnoticed", DENIED, MODES,
        "where jobs share ports, the logs of both say that they meet",
    ),
    Row("lose_log_entries", DENIED, MODES, "what is not kept is refused"),
    Row("connect_to_grpc_of_gateway", DENIED, MODES, "its socket has no name once it listens"),
    Row(
        "lead_bucket_elsewhere lead_backup_elsewhere lead_restore_elsewhere", DENIED, MODES,
        "what a job may link in is reached by descriptors, and no link is followed",
    ),
    Row("swell_backup", DENIED, MODES, "a backup keeps holes"),
    Row(
        "look_up_foreign_object watch_foreign_bucket change_mode_of_foreign_object", DONE,
        (LANDLOCK,), "Landlock has no rule for attributes, modes and watches",
    ),
    Row("find_secrets_in_environment", DENIED, MODES, "jobs get named variables only"),
    Row("plant_links", DONE, MODES, "it may link in its own folders; the server follows none"),
    Row(
        "connect_to_port_of_* keep_port_from_foreign_job find_way_to_metadata", DONE, HOST_NETWORK,
        "these jobs have the network of the machine",
    ),
    Row(
        "find_way_to_metadata", DENIED, (DOCKER,),
        "the docker of the tests has no bridge; a bridge leads to other addresses than loopback",
    ),
    Row(
        "find_way_to_metadata", DONE, (PODMAN, ROOTLESS),
        "the runtime's network leads wherever the machine's does",
    ),
    Row("fork_bomb fill_disk flood_log", DONE, WALLS, "limits end them, not walls"),
    Row(
        "connect_to_abstract_socket", DONE, (USERS, SANDBOX),
        "these sockets belong to the network, which jobs share; NCCL needs them",
    ),
    Row(
        "read_cmdline_of_*", DONE, (LANDLOCK,),
        "/proc shows the command lines of all processes; no secret stands in ours",
    ),
    Row(
        "list_descriptors_of_*", DONE, (LANDLOCK,),
        "/proc counts the descriptors of processes of the same user; none can be opened",
    ),
    Row(
        "slow_down_*", DONE, (LANDLOCK,),
        "Linux asks for the user alone, and Landlock has no rule for it",
    ),
    Row(
        "connect_to_socket_of_server", DONE, (LANDLOCK,),
        "Landlock has no rule for socket files: keep the server's user out of docker's group",
    ),
    Row(
        "read_shared_memory", DONE, (LANDLOCK,),
        "frameworks need /dev/shm, and what lies there is the same user's",
    ),
    Row("read_disk", DENIED, (NONE_ROOT, NONE_USER), "the machine of the tests denies it to all"),
    Row(
        "read_shadow write_trainer_library write_source write_interpreter write_system "
        "write_kernel_setting enter_namespaces_of_* be_root have_capabilities mount_something "
        "make_device leave_chroot read_kernel_log leave_cgroup load_into_bpf open_file_system "
        "open_by_handle read_messages_of_kernel type_into_terminal read_packets_of_network "
        "change_its_network",
        DENIED, (NONE_USER,), "the server's user may not",
    ),
    Row(
        "read_local_descriptors call_as_32_bits talk_to_hypervisor type_into_terminal", DONE,
        CONTAINERS, "the runtime's own filter allows it, in the version of the tests",
    ),
    Row(
        "use_io_uring", DONE, (DOCKER,),
        "the runtime's own filter allows it, in the version of the tests",
    ),
    Row(
        "make_user_namespace clone_user_namespace clone_by_structure", DONE, (PODMAN, ROOTLESS),
        "the runtime's own filter allows it, in the version of the tests",
    ),
)  # fmt: skip


def row_of(name, mode):
    """The row for an attempt, if it has one."""
    return next((row for row in ROWS if row.fits(name, mode)), None)


def outcome_of(name, mode):
    """What an attempt comes to."""
    row = row_of(name, mode)
    return mode.otherwise if row is None else row.outcome


def outcomes_of(mode):
    return {name: outcome_of(name, mode) for name in ATTEMPTS}


#: What attempts are made at: a row of the table for each is too much to read.
TARGETS = ("server", "holder", "supervisor", "foreign_job")


def table():
    """The lines of the table in Markdown, with its reasons."""
    reasons = list(dict.fromkeys(row.reason for row in ROWS if row.modes))
    used = []
    lines = [
        f"| attempt | {' | '.join(mode.name for mode in MODES)} |",
        f"|---|{'---|' * len(MODES)}",
    ]
    for label, name in labels().items():
        cells = [cell(name, mode, reasons, used) for mode in MODES]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    notes = [f"{used.index(reason) + 1}. {reason[0].upper()}{reason[1:]}." for reason in used]
    return [*lines, "", *notes]


def labels():
    """What is written in the first column, and an attempt that it stands for."""
    rows = {}
    for name in ATTEMPTS:
        target = next((target for target in TARGETS if name.endswith(f"_{target}")), None)
        stem = name.removesuffix(f"_{target}") if target else name
        is_for_all = target and all(f"{stem}_{target}" in ATTEMPTS for target in TARGETS)
        label = f"{stem}: server, holder, supervisor, others" if is_for_all else name
        rows.setdefault(label.replace("_", " "), name)
    return rows


def cell(name, mode, reasons, used):
    outcome, row = outcome_of(name, mode), row_of(name, mode)
    text = "**done**" if outcome == DONE and mode in WALLS else outcome
    if row is None or row.reason not in reasons:
        return text
    if row.reason not in used:
        used.append(row.reason)
    return f"{text} ({used.index(row.reason) + 1})"
