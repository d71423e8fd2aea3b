"""The flags of ``gcloud ai-platform jobs submit training`` that set a field of the Job.

One table has each flag's name, the field that it sets and the reader of its value.  The command
line builds its options from the table, ``validate`` applies it to the ``flags`` of a file, and a
violation's field is turned back into the flag that set it.  Flags have priority over the file,
field by field (docs/sources/gcloud.md 3.2).  The evaluator flags are Trainshed's: gcloud has none.

A comma separates the parts of a value; a value that begins with ``^DELIMITER^`` uses another
separator, as in gcloud (``gcloud topic escaping``).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainshed.model.faults import UsageFault

_DELIMITER = re.compile(r"\^([^^]+)\^(.*)", re.DOTALL)
_TRUE = {"true", "yes", "1", "y", "t"}
_FALSE = {"false", "no", "0", "n", "f"}


def words(text: str, delimiter: str = ",") -> list[str]:
    """Return the parts of a list: ``["a", "b"]`` for ``a,b``; none for an empty text."""
    if match := _DELIMITER.fullmatch(text):
        delimiter, text = match.groups()
    return [word.strip() for word in text.split(delimiter)] if text.strip() else []


def pairs(flag: str, text: str) -> dict[str, str]:
    """Return ``a=1,b=2`` as a mapping.  Raises UsageFault without ``=``, or for a key twice."""
    mapping: dict[str, str] = {}
    for word in words(text):
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageFault(f"{flag} must be KEY=VALUE pairs separated by commas, got {word!r}")
        if key in mapping:
            raise UsageFault(f"{flag} has {key} twice")
        mapping[key] = value
    return mapping


def whole(flag: str, text: str) -> int:
    """Return a whole number, such as a count.  Raises UsageFault."""
    try:
        return int(text)
    except ValueError:
        raise UsageFault(f"{flag} must be a whole number, got {text!r}") from None


def boolean(flag: str, text: str) -> bool:
    """Return ``true`` or ``false`` in any spelling of gcloud.  Raises UsageFault."""
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise UsageFault(f"{flag} must be true or false, got {text!r}")
    return word in _TRUE


def choice(text: str) -> str:
    """Return the enum name for gcloud's spelling: ``STANDARD_1`` for ``standard-1``."""
    return text.strip().upper().replace("-", "_")


def accelerator(flag: str, text: str) -> dict[str, Any]:
    """Return ``count=4,type=nvidia-tesla-t4`` as an acceleratorConfig; both keys are required."""
    fields = pairs(flag, text)
    if set(fields) != {"count", "type"}:
        raise UsageFault(f"{flag} must be count=NUMBER,type=TYPE, got {text!r}")
    return {"count": whole(flag, fields["count"]), "type": choice(fields["type"])}


def text_of(value: Any) -> str:
    """Return a value of a file, such as a number or a mapping, as on a command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ",".join(f"{key}={text_of(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ",".join(text_of(item) for item in value)
    return str(value)


Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitFlag:
    """One flag: ``name`` without its dashes, the wire path that it sets, and its reader."""

    name: str
    path: Path
    metavar: str
    help: str
    read: Callable[[str, str], Any]

    @property
    def option(self) -> str:
        """The flag as it is typed."""
        return f"--{self.name}"


def _text(_flag: str, value: str) -> str:
    return value


def _tier(_flag: str, value: str) -> str:
    return choice(value)


def _list(_flag: str, value: str) -> list[str]:
    """Split a list of packages, and put remote packages first (docs/sources/gcloud.md 4)."""
    return sorted(words(value), key=lambda uri: not uri.startswith("gs://"))


Row = tuple[str, tuple[str, ...], str, str, Callable[[str, str], Any]]


def _role(flag: str, field: str, what: str) -> tuple[Row, ...]:
    config = f"{field}Config"
    hardware = "acceleratorConfig"
    example = "such as count=1,type=nvidia-tesla-t4"
    return (
        (f"{flag}-count", (f"{field}Count",), "N", f"Number of {what}", whole),
        (f"{flag}-machine-type", (f"{field}Type",), "TYPE", f"Machine type of {what}", _text),
        (f"{flag}-accelerator", (config, hardware), "count=N,type=TYPE",
         f"Accelerators of {what}, {example}", accelerator),
        (f"{flag}-image-uri", (config, "imageUri"), "URI", f"Container image of {what}", _text),
    )  # fmt: skip


#: Flag, path below trainingInput, metavar, help, reader.
_INPUT: tuple[Row, ...] = (
    ("scale-tier", ("scaleTier",), "TIER",
     "basic, standard-1, premium-1, basic-gpu, basic-tpu or custom", _tier),
    *_role("master", "master", "the master")[1:],
    *_role("worker", "worker", "the workers"),
    *_role("parameter-server", "parameterServer", "the parameter servers"),
    *_role("evaluator", "evaluator", "the evaluators"),
    ("region", ("region",), "REGION", "Region whose machines are checked", _text),
    ("runtime-version", ("runtimeVersion",), "VERSION", "Runtime version", _text),
    ("python-version", ("pythonVersion",), "VERSION", "Python version", _text),
    ("module-name", ("pythonModule",), "MODULE", "Module to run", _text),
    ("packages", ("packageUris",), "FILE,...",
     "sdists or wheels to install: local paths or gs:// URIs", _list),
    ("job-dir", ("jobDir",), "DIR", "Where outputs go: a folder or gs://", _text),
    ("use-chief-in-tf-config", ("useChiefInTfConfig",), "BOOL",
     "Whether TF_CONFIG calls the master chief", boolean),
)  # fmt: skip
_LABELS: Row = ("labels", ("labels",), "KEY=VALUE,...", "Labels of the job", pairs)


def _flag(row: Row, *above: str) -> SubmitFlag:
    name, path, metavar, text, read = row
    return SubmitFlag(name=name, path=(*above, *path), metavar=metavar, help=text, read=read)


FLAGS: Mapping[str, SubmitFlag] = {
    flag.name: flag for flag in (*(_flag(row, "trainingInput") for row in _INPUT), _flag(_LABELS))
}

#: The flags that name the machines of a job: with one of them, the job is checked by the catalog.
MACHINE_FLAGS = frozenset(
    name
    for name in FLAGS
    if name == "scale-tier" or name.endswith(("-machine-type", "-accelerator", "-image-uri"))
)
