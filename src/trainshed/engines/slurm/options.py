"""Reads the table of a Slurm cluster in the configuration; refuses unknown settings."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath
from typing import Any, Final

from trainshed.engines.container_runtime import APPTAINER, SINGULARITY, Runtime, RuntimeChoice
from trainshed.engines.setting_readers import Reader, SettingReaders
from trainshed.engines.slurm import sbatch_options
from trainshed.engines.slurm.commands import TOKEN
from trainshed.model.faults import UsageFault
from trainshed.model.resources import FleetPolicy

#: Prefix of the labels of a job that are options for Slurm.
WISH: Final = "trainshed-slurm-"
#: The options that labels may set, if the setting ``wishes`` lists them.
WISHES: Final = (
    "partition", "account", "qos", "reservation", "nice", "constraint", *sbatch_options.OPTIONS
)  # fmt: skip
#: Limit of ``hold_s``: nodes that are kept between attempts are idle and cost money.
HOLD_S_MAX: Final = 3600.0
#: A name in Slurm; it cannot begin with a dash, so Slurm cannot mistake it for an option.
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,@%+-]*")
#: A constraint on the features of nodes, such as ``a100&ib`` or ``[rack1|rack2]``.
_CONSTRAINT: Final = re.compile(r"[A-Za-z0-9_(\[][A-Za-z0-9_.,:=@%+&|*!()\[\]-]*")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: The value of ``containers`` for a cluster whose nodes run no images.
NO_CONTAINERS: Final = "none"
#: Names of the programs on the nodes that can run an image for a warden.
_PROGRAMS: Final = (APPTAINER, SINGULARITY)
_READERS: Final = SettingReaders("a Slurm engine")
_REMEDY: Final = (
    'apptainer on the nodes, and `containers = "apptainer"` in the [[engine]] table of the '
    "cluster; then a restart of the server"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    """The settings of one ``[[engine]]`` table of kind ``slurm``."""

    spool: str
    """The folder that server and nodes share, as the server sees it."""
    spool_there: str = ""
    """Path of the spool on the nodes and the login node; if empty, the same as ``spool``."""
    ssh: str = ""
    """The login node on which to run Slurm's commands; if empty, the server's machine."""
    commands: str = ""
    """The folder of Slurm's commands; if empty, that on the PATH of the server or login node."""
    env: tuple[str, ...] = ()
    """Names of variables of the server that Slurm's commands get, such as ``SLURM_JWT``."""
    token_file: str = ""
    """A file with the token ``SLURM_JWT`` of Slurm's commands, read before each command."""
    clusters: str = ""
    """The cluster of a multi-cluster installation, as in ``--clusters``; empty: the default."""
    partition: str = ""
    """One partition, or several with commas: Slurm starts the job in the first with room."""
    account: str | Mapping[str, str] = ""
    """One account for all projects, or a table by project; ``*`` is for all other projects."""
    qos: str = ""
    reservation: str = ""
    nice: int | None = None
    constraint: str = ""
    """Features that the nodes of jobs must have."""
    sbatch_options: tuple[str, ...] = ()
    """Further options of sbatch, of those in ``sbatch_options.OPTIONS``."""
    wishes: tuple[str, ...] = ()
    """The options of ``WISHES`` that jobs may set by label."""
    partitions: Mapping[str, str] = field(default_factory=dict)
    """The partition for jobs, by the type of their accelerators."""
    gres: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Slurm's words for GPUs, by accelerator type, if the names of the GPUs do not show the type.

    An allocation has GPUs of one word; of several, the one with the most room is requested."""
    policy: FleetPolicy = FleetPolicy.EXACT
    """``exact``: jobs request the CPUs and the memory of their machine type from Slurm."""
    environments: Mapping[str, str] = field(default_factory=dict)
    """Interpreters on the nodes by name."""
    containers: str = NO_CONTAINERS
    """The runtime for jobs' images on the nodes: ``apptainer``, ``singularity`` or its path."""
    python: str = "python3"
    """The nodes' interpreter for launchers and wardens: 3.9 or newer."""
    path: str = "/usr/local/bin:/usr/bin:/bin"
    """``PATH`` of programs on the nodes."""
    buckets: str = ""
    """Path on the nodes of the folder of all buckets; if empty, the same as on the server."""
    cache: str = ""
    """Folder on the nodes for installed packages; a folder of the user if empty."""
    packing: bool = False
    """Whether small replicas share nodes with replicas that have GPUs."""
    spread: bool = False
    """Whether each replica with GPUs gets a node of its own, while there are enough nodes."""
    waste_max: float = 0.25
    """The share of CPUs and of memory that replicas of different sizes may waste in one shape.

    Beyond it, they are components of a heterogeneous job."""
    listen_variable: str = ""
    """Name of a variable on each node with the address at which other nodes reach this node."""
    enqueued_max: int = 1000
    time_max_s: float | None = None
    """The longest time limit, in seconds, that a QOS or an account permits; partitions show theirs.

    None: no limit."""
    hold_cancelled: bool = True
    """Whether a job that a person cancels in Slurm is held until a user resumes it; else the job
    restarts at once."""
    hold_s: float = 0.0
    """Seconds to keep an allocation for the next attempt of its job; 0: do not keep it."""
    lost_after_s: float = 90.0
    """Seconds to wait for the records of a job that Slurm reports as ended or unknown."""
    poll_s: float = 10.0
    """Seconds between two polls of Slurm while no job changes."""
    usage_s: float = 10.0
    """Seconds between two samples of the usage of replicas; 0: no samples."""
    grace_s: float = 10.0
    hang_s: float | None = None
    hang_stacks: bool = True
    log_bytes_per_s_max: int | None = None
    log_bytes_max: int | None = None
    package_bytes_max: int | None = None
    relax_pins: bool = False
    start_timeout_s: float = 300.0

    @property
    def spool_of_nodes(self) -> str:
        """The path of the spool on the nodes."""
        return self.spool_there or self.spool

    @property
    def beyond_s(self) -> float:
        """Seconds after the running time for which an attempt may still have its nodes."""
        return self.grace_s + self.hold_s

    @property
    def hidden_variables(self) -> tuple[str, ...]:
        """Names of variables that sbatch gets and that jobs must not have."""
        return (*self.env, TOKEN) if self.token_file else self.env

    def account_of(self, project: str) -> str:
        """Return the account of a project; empty: the default account of the user."""
        if isinstance(self.account, str):
            return self.account
        return self.account.get(project, self.account.get("*", ""))


def read(table: Mapping[str, Any]) -> SlurmOptions:
    """Read the options of a table.  Raises UsageFault."""
    names = [setting.name for setting in fields(SlurmOptions)]
    _READERS.check_names(table, names)
    _READERS.require(table, "spool", "a folder that server and nodes share")
    options = SlurmOptions(**{name: _check_setting(name, value) for name, value in table.items()})
    setting = "env" if options.env else "token_file" if options.token_file else ""
    if setting and options.ssh:
        raise UsageFault(
            f"a Slurm engine cannot have both `{setting}` and `ssh`: the commands on the login "
            "node have the environment of the login node; set the variables there and remove "
            f"`{setting}`"
        )
    return options


def wishes_of(wants: Mapping[str, str], options: SlurmOptions) -> dict[str, str]:
    """Return the Slurm options in the labels of a job.  Raises UsageFault for a refused one."""
    wishes = {
        name.removeprefix(WISH): text for name, text in wants.items() if name.startswith(WISH)
    }
    for name, text in wishes.items():
        if name not in options.wishes:
            accepted = ", ".join(f"{WISH}{wish}" for wish in options.wishes) or "none"
            raise UsageFault(
                f"the engine does not accept the label {WISH}{name}; accepted are: {accepted} "
                "(the administrator permits labels by `wishes` in the [[engine]] table)"
            )
        if accepted := _explain_wish(name, text):
            raise UsageFault(f"the label {WISH}{name} must be {accepted}, got {text!r}")
    return wishes


def list_sbatch_options(wishes: Mapping[str, str], options: SlurmOptions) -> tuple[str, ...]:
    """List the further options of sbatch for a job with these wishes."""
    own = [
        sbatch_options.option_of(name, text)
        for name, text in wishes.items()
        if name in sbatch_options.OPTIONS
    ]
    return sbatch_options.merge(options.sbatch_options, own)


def _explain_wish(name: str, text: str) -> str:
    """Return what the value of a label must be; empty: the value is accepted."""
    if name in sbatch_options.OPTIONS:
        accepted = sbatch_options.explain_refusal(sbatch_options.option_of(name, text))
        return accepted and (sbatch_options.describe_values(name))
    if name == "nice":
        return "" if text.isdecimal() else "a whole number from 0"
    return "" if NAME.fullmatch(text) else "a name that Slurm knows"


def _check_setting(name: str, value: Any) -> Any:
    read_setting: Reader = _CHECKS.get(name, _READERS.read_text)
    return read_setting(name, value)


def _check_name(name: str, value: Any) -> str:
    text = _READERS.read_text(name, value)
    if text and not NAME.fullmatch(text):
        raise _READERS.refuse(name, "a name of Slurm's", text)
    return text


def _check_one_name(name: str, value: Any) -> str:
    text = _check_name(name, value)
    if "," in text:
        raise _READERS.refuse(name, "one name", text)
    return text


def _check_constraint(name: str, value: Any) -> str:
    text = _READERS.read_text(name, value)
    if text and not _CONSTRAINT.fullmatch(text):
        raise _READERS.refuse(name, "features of nodes such as a100&ib", text)
    return text


def _check_sbatch_options(name: str, value: Any) -> tuple[str, ...]:
    texts = _READERS.read_texts(name, value)
    for text in texts:
        if accepted := sbatch_options.explain_refusal(text):
            raise _READERS.refuse(name, f"a list of {accepted}", text)
    return tuple(texts)


def _check_env(name: str, value: Any) -> tuple[str, ...]:
    texts = _READERS.read_texts(name, value)
    for text in texts:
        if not _VARIABLE.fullmatch(text):
            raise _READERS.refuse(name, "a list of names of variables", text)
    return tuple(texts)


def _check_share(name: str, value: Any) -> float:
    share = _READERS.read_seconds(name, value)
    if share >= 1:
        raise _READERS.refuse(name, "a number from 0 to below 1", value)
    return share


def _check_account(name: str, value: Any) -> str | dict[str, str]:
    return _check_names(name, value) if isinstance(value, Mapping) else _check_name(name, value)


def _check_names(name: str, value: Any) -> dict[str, str]:
    return _READERS.read_table(name, value, _check_name)


def _check_gres(name: str, value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise _READERS.refuse(name, "a table of texts or lists of texts", value)
    return {str(key): _check_words(f"{name}.{key}", words) for key, words in value.items()}


def _check_words(name: str, value: Any) -> tuple[str, ...]:
    words = [value] if isinstance(value, str) else value
    return _READERS.read_texts(name, words, _check_one_name)


def _check_host(name: str, value: Any) -> str:
    text = _READERS.read_text(name, value)
    if text.startswith("-"):
        raise _READERS.refuse(name, "HOST or USER@HOST", text)
    return text


def _check_containers(name: str, value: Any) -> str:
    text = _READERS.read_text(name, value)
    if not is_container_choice(text):
        words = ", ".join(_PROGRAMS)
        accepted = f"{NO_CONTAINERS}, {words} or the absolute path of one of these"
        raise _READERS.refuse(name, accepted, text)
    return text


def _check_wishes(name: str, value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, list | tuple)
    refused = [wish for wish in value if wish not in WISHES] if is_list else [value]
    if refused:
        raise _READERS.refuse(name, f"a list of {', '.join(WISHES)}", refused[0])
    return tuple(value)


def _check_hold(name: str, value: Any) -> float:
    seconds = _READERS.read_seconds(name, value)
    if seconds > HOLD_S_MAX:
        raise _READERS.refuse(name, f"a number from 0 to {HOLD_S_MAX:g}", value)
    return seconds


_CHECKS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(
        ("spool", "spool_there", "commands", "buckets", "cache", "token_file"), _READERS.read_folder
    ),
    "token_file": _READERS.read_folder,
    "ssh": _check_host,
    "env": _check_env,
    "clusters": _check_one_name,
    "constraint": _check_constraint,
    "sbatch_options": _check_sbatch_options,
    "waste_max": _check_share,
    "containers": _check_containers,
    **dict.fromkeys(("partition", "qos", "reservation"), _check_name),
    "account": _check_account,
    "wishes": _check_wishes,
    "partitions": _check_names,
    "gres": _check_gres,
    "policy": _READERS.read_policy,
    "environments": _READERS.read_table,
    **dict.fromkeys(
        ("packing", "spread", "hang_stacks", "relax_pins", "hold_cancelled"), _READERS.read_switch
    ),
    **dict.fromkeys(("nice", "enqueued_max", "package_bytes_max"), _READERS.read_count),
    **dict.fromkeys(("log_bytes_per_s_max", "log_bytes_max"), _READERS.read_count),
    "hold_s": _check_hold,
    "time_max_s": _READERS.read_seconds,
    "usage_s": _READERS.read_sample_time,
    **dict.fromkeys(
        ("lost_after_s", "poll_s", "grace_s", "hang_s", "start_timeout_s"), _READERS.read_seconds
    ),
}


def is_container_choice(text: str) -> bool:
    """Return whether the setting ``containers`` accepts this text."""
    is_program = PurePosixPath(text).name in _PROGRAMS
    return text == NO_CONTAINERS or (is_program and ("/" not in text or text.startswith("/")))


def containers_of(choice: str) -> RuntimeChoice:
    """Return the runtime that ``containers`` chooses; runtimes run as the server's user."""
    if choice == NO_CONTAINERS:
        return RuntimeChoice(None, 'the setting containers of the engine is "none"', _REMEDY)
    name = PurePosixPath(choice).name
    return RuntimeChoice(Runtime(name=name, program=choice, version="of the nodes", user=None))
