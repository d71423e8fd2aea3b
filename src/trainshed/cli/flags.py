"""The parser of all commands, with gcloud's rules, and the flags that commands share."""

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar

from trainshed.cli import flag_values
from trainshed.cli.terminal import write
from trainshed.model.faults import UsageFault
from trainshed.storage.buckets import GsPaths

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
V = TypeVar("V")

#: gcloud-wide flags that have no effect here; they are accepted, and a note names them.
_IDLE_WORDS = (
    "--account",
    "--billing-project",
    "--configuration",
    "--flatten",
    "--impersonate-service-account",
    "--trace-token",
    "--verbosity",
)
_IDLE_SWITCHES = ("--log-http", "--user-output-enabled")

#: Flags with one value that are part of a job: name, metavar, help.  ml v1 has no persistent
#: resource.
_SPEC = (
    ("service-account", "EMAIL", "Account of the job; recorded, but not used"),
    ("network", "NAME", "Network of the job; recorded, but not used"),
)
_SPEC_VERTEX = (
    ("persistent-resource-id", "ID", "Persistent resource of the job; recorded, but not used"),
)
#: The parts of the name of an encryption key.
KMS = ("kms_key", "kms_keyring", "kms_location", "kms_project")
#: What argparse says of a flag whose value is missing, or looks like a flag itself.
_NO_VALUE: Final = re.compile(r"argument (--[\w-]+): expected one argument")
_REGION = "Location; default: CLOUDSDK_AI_REGION, CLOUDSDK_COMPUTE_REGION, us-central1"

#: The noun for a resource of each group of commands, and an example of its id.
NOUNS = {
    "ai-platform jobs": ("job", "census_1"),
    "ml-engine jobs": ("job", "census_1"),
    "ai custom-jobs": ("custom job", "4611686018427387904"),
    "ai hp-tuning-jobs": ("tuning job", "4611686018427387904"),
    "ai pipelines": ("training pipeline", "4611686018427387904"),
}


class Request(NamedTuple):
    """A parsed command line: the flags, and the words after a bare ``--``; None without ``--``."""

    args: argparse.Namespace
    user_args: tuple[str, ...] | None = None


class ListFlags(NamedTuple):
    """The flags that choose and sort the rows of a list."""

    filter: str
    sort_by: str
    limit: int | None
    page_size: int | None


class Parser(argparse.ArgumentParser):
    """A parser that raises errors as UsageFault, with the nearest flag."""

    def __init__(self, prog: str, *, summary: str, example: str, usage: str | None = None) -> None:
        """Make a parser with an example below its help."""
        super().__init__(
            prog=prog,
            usage=usage or f"{prog} [flags]",
            description=summary,
            epilog=f"example:\n{example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        #: Flags that are refused after a bare ``--``; None: the command accepts no ``--``.
        self.own_flags: Collection[str] | None = None
        #: Refuses combinations of flags that argparse cannot refuse.
        self.check: Callable[[Parser, argparse.Namespace], None] | None = None

    def error(self, message: str) -> NoReturn:
        """Refuse a command line.  Raises UsageFault."""
        if match := _NO_VALUE.fullmatch(message):
            message += f"; if its value begins with -, write {match[1]}=VALUE"
        raise UsageFault(f"{message}; see {self.prog} --help")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help by ``terminal.write``, as all output."""
        if message:
            write(message, file or sys.stderr)

    def request(self, argv: Sequence[str]) -> Request:
        """Parse a command line.  Raises UsageFault, for unknown flags with the nearest one."""
        words, user_args = list(argv), None
        if self.own_flags is not None and "--" in words:
            index = words.index("--")
            words, user_args = words[:index], tuple(words[index + 1 :])
            _refuse_own_flags(user_args, self.own_flags)
        args, unknown = self.parse_known_args(words)
        if unknown:
            flag = unknown[0].split("=")[0]
            self.error(f"unknown argument {flag}{self._hint(flag, user_args)}")
        if self.check:
            self.check(self, args)
        return Request(args, user_args)

    def _hint(self, flag: str, user_args: tuple[str, ...] | None) -> str:
        """Return a hint: the nearest flag, and where to write the program's arguments."""
        near = difflib.get_close_matches(flag, self._option_string_actions, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        if self.own_flags is not None and user_args is None:
            return f"{hint}; put the program's own arguments after a bare --"
        if "--args" in self._option_string_actions:
            return f"{hint}; the program's own arguments go into --args=ARG,ARG"
        return hint


def to_dataclass(kind: type[T], args: argparse.Namespace, **computed: object) -> T:
    """Return a dataclass: its fields are ``computed``, or the flags of the same names."""
    names = [field.name for field in fields(kind) if field.name not in computed]
    return kind(**{name: getattr(args, name) for name in names}, **computed)


def _refuse_own_flags(user_args: Iterable[str], own_flags: Iterable[str]) -> None:
    """Refuse a flag of the service among the USER_ARGS, where it would have no effect.

    gcloud silently passes it to the trainer, and the service never receives it.
    """
    names = {f"--{name}" for name in own_flags}
    for word in user_args:
        flag = word.split("=")[0]
        if flag in names:
            raise UsageFault(
                f"{flag} is after the bare --, and everything after it goes to the trainer; "
                f"put {flag} before the --"
            )


def command_of(prog: str, request: Request) -> tuple[str, ...]:
    """Return the words after the bare ``--``.  Raises UsageFault if there are none."""
    if request.user_args:
        return request.user_args
    raise UsageFault(f"{prog} needs a command after a bare --, such as: {prog} -- python submit.py")


def name_help(group: str, noun: str) -> str:
    """Return the help of NAME: a resource of Vertex AI also has a display name."""
    if group.startswith("ai "):
        return f"Number or full name of the {noun}, or a display name that only one {noun} has"
    return f"Id or full name of the {noun}"


def adder(group: argparse._ActionsContainer) -> Callable[..., None]:
    """Return a function that adds options to a parser, or to a group of its options.

    Its arguments are the option's names and metavar, such as ``--limit N``, its help, and further
    keywords of ``add_argument``.
    """

    def add(words: str, text: str, **settings: Any) -> None:
        names = list(takewhile(lambda word: word.startswith("-"), words.split()))
        if metavar := words.removeprefix(" ".join(names)).strip():
            settings["metavar"] = metavar
        group.add_argument(*names, help=text, **settings)

    return add


def add_fields(parser: Parser, kind: type["DataclassInstance"]) -> None:
    """Add a flag for each field of a request (``planning.plan_request.flag``)."""
    group: argparse._ActionsContainer = parser
    for one in fields(kind):
        settings: dict[str, Any] = {"default": one.default, **one.metadata}
        words, text = settings.pop("words"), settings.pop("text")
        settings.pop("place", None)
        if section := settings.pop("section", ""):
            group = parser.add_argument_group(section)
        if read := settings.pop("read", None):
            settings["type"] = flag_values.reading(read)
        if choices := settings.get("choices"):
            by_text = {str(choice): choice for choice in choices}
            settings |= {"choices": list(by_text), "type": partial(_convert_choice, by_text)}
        if settings.get("action") == "append":
            settings["default"] = list(settings["default"])
        if words.startswith("-"):
            adder(group)(words, text, dest=one.name, **settings)
        else:
            group.add_argument(one.name, metavar=words, nargs="?", help=text, **settings)


def _convert_choice(by_text: Mapping[str, V], text: str) -> V | str:
    """Return a choice by its text, or an unknown text, which argparse refuses."""
    return by_text.get(text, text)


def add_format(parser: argparse.ArgumentParser, forms: Sequence[str] = ("text", "json")) -> None:
    """Add ``--format``; the first of ``forms`` is the default."""
    add = adder(parser)
    add("--format", "Format of the results", choices=forms, default=forms[0])


def add_catalog_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that choose the rules for checking a job."""
    add = adder(parser.add_argument_group("rules to check the job by"))
    add(
        "--edition ID",
        "Month whose machine types, accelerators and rules of Google apply, such as 2020-08",
    )
    add("--zone-snapshot ID", "Zone data, such as zones-2021-10-25")
    add(
        "--overlay FILE",
        "TOML file with your own machine types, accelerators and regions; repeatable",
        action="append",
        default=[],
    )
    add(
        "--date YYYY-MM-DD",
        "Day of the check: everything that was blocked or retired on that day is "
        "refused; default: today, with a note instead of a refusal",
        type=flag_values.day,
    )
    add(
        "--scope",
        "machines: do not check images, packages and runtime versions; default: all",
        choices=("machines", "all"),
    )


def add_gcloud_wide(parser: argparse.ArgumentParser) -> None:
    """Add the flags of every gcloud command: only ``--project`` has an effect."""
    group = parser.add_argument_group("gcloud-wide flags")
    group.add_argument("--project", default="local", help="Project id that replicas see")
    group.add_argument("--quiet", "-q", action="store_true", help=argparse.SUPPRESS)
    add_idle(parser, words=(*_IDLE_WORDS, "--access-token-file"), switches=_IDLE_SWITCHES)


def add_idle(
    parser: argparse.ArgumentParser, *, words: Iterable[str], switches: Iterable[str]
) -> None:
    """Add flags that scripts may give and that have no effect here."""
    for word in words:
        parser.add_argument(word, dest=f"idle{word}", metavar="X", help=argparse.SUPPRESS)
    for switch in switches:
        parser.add_argument(
            switch, dest=f"idle{switch}", action="store_true", help=argparse.SUPPRESS
        )


def idle_flags(args: argparse.Namespace) -> list[str]:
    """Return the given flags that have no effect here."""
    values = vars(args).items()
    return [
        name.removeprefix("idle") for name, value in values if name.startswith("idle") and value
    ]


def add_server_flags(parser: argparse.ArgumentParser, *, data_dir: bool = True) -> None:
    """Add ``--url``, ``--token-file``, ``--ca-file`` and, unless it has one, ``--data-dir``."""
    add = adder(parser.add_argument_group("which server"))
    add("--url", "Address of the server; default: the server of the data directory")
    if data_dir:
        add("--data-dir DIR", "Data directory; default: TRAINSHED_DATA_DIR")
    add(
        "--token-file --access-token-file FILE",
        "File with a token; default: TRAINSHED_TOKEN, else admin-token in DIR",
        type=Path,
    )
    add(
        "--ca-file FILE",
        "CA certificates to trust for an https server; default: those of the server in DIR; for "
        "other servers TRAINSHED_CA_FILE, else the CA certificates of this machine",
        type=Path,
    )


def add_list_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``--filter``, ``--limit``, ``--sort-by`` and ``--page-size``, as gcloud's lists have."""
    add = adder(parser)
    add(
        "--filter TEXT",
        "Comparisons that must all hold, such as: state=RUNNING labels.team:vision "
        "createTime>2026-01-31 NOT displayName~^test; operators = != : ~ < <= > >=",
        default="",
    )
    add("--limit N", "Show at most N", type=flag_values.whole_number(1))
    add("--sort-by FIELD,...", "Sort by fields; ~FIELD in descending order", default="")
    add("--page-size N", "Request N from the server at once", type=flag_values.whole_number(1))


def list_flags_of(args: argparse.Namespace) -> ListFlags:
    """Return the flags of a list."""
    return ListFlags(args.filter, args.sort_by, args.limit, args.page_size)


def add_client_flags(
    parser: argparse.ArgumentParser,
    *,
    located: bool = False,
    projected: bool = False,
    data_dir: bool = True,
    forms: Sequence[str] = ("text", "json"),
) -> None:
    """Add the flags of the server and the project, ``--format``, and gcloud's flags without effect.

    ``located``: the collection has a ``--region``; ``projected``: ``--format`` takes projections;
    not ``data_dir``: the parser has a ``--data-dir`` of its own; ``forms``: what else it takes.
    """
    if projected:
        from trainshed.cli.projection import add_format as add_projected

        add_projected(parser)
    else:
        add_format(parser, forms)
    add = adder(parser)
    add("--project ID", "Project; default: CLOUDSDK_CORE_PROJECT, TRAINSHED_PROJECT")
    if located:
        add("--region REGION", _REGION)
    add_server_flags(parser, data_dir=data_dir)
    add("--quiet -q", argparse.SUPPRESS, action="store_true")
    add_idle(parser, words=_IDLE_WORDS, switches=_IDLE_SWITCHES)


def add_spec_flags(parser: argparse.ArgumentParser, *, vertex: bool) -> None:
    """Add the flags for a job's accounts, networks, keys and access, in both dialects."""
    group = parser.add_argument_group("accounts, networks and access")
    for name, metavar, text in (*_SPEC, *(_SPEC_VERTEX if vertex else ())):
        group.add_argument(f"--{name}", metavar=metavar, dest=f"spec:{name}", help=text)
    for name in ("enable-web-access", *(["enable-dashboard-access"] if vertex else [])):
        group.add_argument(
            f"--{name}", dest=f"switch:{name}", action="store_true", help=argparse.SUPPRESS
        )
    for name in KMS:
        flag = f"--{name.replace('_', '-')}"
        group.add_argument(flag, metavar="NAME", help=argparse.SUPPRESS)


def add_server_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add ``--dry-run`` to a command that creates a job on a server."""
    add = adder(parser)
    add(
        "--dry-run",
        "Print the launch plan that the server composes for the job, without secrets; the "
        "server checks the job as at its creation, and stores and starts nothing",
        action="store_true",
    )


def add_study_start(parser: argparse.ArgumentParser) -> None:
    """Add the flags for what a study has before its first trial."""
    add = adder(parser)
    add(
        "--warm-start SOURCE",
        "Known results that the search uses, of a tuning job: a CSV or JSON file, an Optuna "
        "storage such as sqlite:///x.db#STUDY, a folder of MLflow such as mlruns/ID, or the id or "
        "name of another tuning job; repeatable",
        action="append",
        default=[],
    )
    add(
        "--enqueue POINT",
        "A point to try before the search, of a tuning job: NAME=VALUE,... or a CSV or JSON file "
        "of points; repeatable, in the order of the trials",
        action="append",
        default=[],
    )


def add_priors(parser: argparse.ArgumentParser) -> None:
    """Add the flag for where the best values of parameters are expected."""
    adder(parser)(
        "--prior NAME=VALUE[:narrow|wide]",
        "Where the best value of a parameter is expected, of a tuning job; sets the label "
        "trainshed-prior-NAME; repeatable",
        action="append",
        default=[],
    )


def add_stream_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--stream-logs``."""
    add = adder(parser)
    add(
        "--stream-logs",
        "Print the job's log until it ends, and end with the exit code of its primary "
        "replica; Ctrl-C leaves the job running",
        action="store_true",
    )


def add_run_flags(parser: argparse.ArgumentParser, *, dry_run: bool = True) -> None:
    """Add the flags of programs that run on this machine: interpreter, folders, colours."""
    group = parser.add_argument_group("this machine")
    add = adder(group)
    add(
        "--python PATH",
        "Interpreter of the replicas; default: TRAINSHED_PYTHON, else the matching "
        "[[environment]] in config.toml of the data folder, else Trainshed's own",
    )
    add(
        "--data-dir DIR",
        "Folder of the buckets; default: TRAINSHED_DATA_DIR, else the user's data folder",
    )
    add(
        "--gs-paths",
        "Form of gs:// directories for replicas: the path of a local folder, or the URI",
        choices=[choice.value for choice in GsPaths],
        default=GsPaths.PATH.value,
    )
    if dry_run:
        add(
            "--gateway",
            "Serve gs:// and credentials to programs that request them from Google; default: "
            "auto, unless the environment has credentials for Google",
            choices=("auto", "on", "off"),
            default="auto",
        )
        add("--dry-run", "Print the launch plan; do not start the job", action="store_true")
        add(
            "--calibration FILE",
            "File that trainshed plan calibrate wrote; print whether the job would scale badly, "
            "wait for its input, or cost less on other machines",
            type=Path,
        )
        add_no_plan(group)
    add(
        "--color",
        "Whether to colour the prefixes of lines",
        choices=("auto", "always", "never"),
        default="auto",
    )


def add_no_plan(group: argparse._ActionsContainer) -> None:
    """Add ``--no-plan``."""
    group.add_argument("--no-plan", action="store_true", help="Print no remarks on the job's plan")
