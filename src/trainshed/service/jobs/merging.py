"""Applies flags to a document, and records which field each flag set.

Sub-objects merge: ``--master-accelerator`` replaces the accelerator and leaves the rest of
masterConfig alone (docs/sources/gcloud.md 3.2).
"""

import copy
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from trainshed.model.faults import UsageFault
from trainshed.service.jobs.refusing import Merged
from trainshed.service.jobs.submit_flags import FLAGS, Path, SubmitFlag, text_of
from trainshed.wire.parsed import snake

#: The key of a file's own flags, which have the effect of flags on the command line.
FLAGS_KEY = "flags"


def merge(content: Mapping[str, Any], flags: Mapping[str, str], *, has_file: bool = True) -> Merged:
    """Apply the document's own ``flags``, and then the command line's, to a Job document.

    ``has_file`` is False for a job made of flags alone: every field is then called by its flag.
    Raises UsageFault for a flag that does not exist or a value that cannot be read.
    """
    document, file_flags = split_flags(content)
    if not (flags or file_flags):
        return Merged(content=document)
    document = copy.deepcopy(document)
    flag_by_path = {} if has_file else {".".join(f.path): f.option for f in FLAGS.values()}
    for name, value in {**file_flags, **flags}.items():
        flag = find_flag(name)
        put(document, flag.path, flag.read(flag.option, value))
        flag_by_path[".".join(flag.path)] = flag.option
    return Merged(content=document, words=partial(flag_or_path, flag_by_path))


def merge_any(content: Mapping[str, Any], flags: Mapping[str, str], *, source: str) -> Merged:
    """Apply flags to a document of either dialect.

    The submit flags set fields of an ml v1 Job.  A Vertex job takes only ``--region``, which is no
    field of its document.  Raises UsageFault for any other flag.
    """
    from trainshed.wire.detect import DocumentKind, kind_of  # noqa: PLC0415  # reads the whole catalog

    kind = kind_of(content)
    if kind is DocumentKind.ML_JOB:
        return merge(content, flags)
    document, file_flags = split_flags(content)
    all_flags = {**file_flags, **flags}
    unfit = next((name for name in all_flags if name != "region"), None)
    if unfit and isinstance(kind, DocumentKind):
        raise UsageFault(
            f"{find_flag(unfit).option} is a flag of AI Platform jobs, and {source} is {kind.value}"
        )
    return Merged(content=document, region=all_flags.get("region"))


def with_args(merged: Merged, user_args: Sequence[str] | None) -> Merged:
    """Replace the args of the document with USER_ARGS, if there are any."""
    if not user_args:
        return merged
    content = dict(merged.content)
    key = find_spelling(content, "trainingInput")
    content[key] = dict(content[key]) if isinstance(content.get(key), dict) else {}
    put(content, ("trainingInput", "args"), list(user_args))
    return replace(merged, content=content)


def split_flags(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a document without its ``flags``, and these flags as text.  Raises UsageFault."""
    file_flags = content.get(FLAGS_KEY) or {}
    if not isinstance(file_flags, dict):
        raise UsageFault(
            f"{FLAGS_KEY} must be a mapping of flag names to values, got {file_flags!r}"
        )
    document = {key: value for key, value in content.items() if key != FLAGS_KEY}
    return document, {name.lstrip("-"): text_of(value) for name, value in file_flags.items()}


def flag_or_path(flag_by_path: Mapping[str, str], wire_path: str) -> str:
    """Return the flag that set a field, or its dotted path; the path may be snake or camel case."""
    plain = _plain(wire_path)
    for path, flag in flag_by_path.items():
        if plain == _plain(path) or plain.startswith((f"{_plain(path)}.", f"{_plain(path)}[")):
            return flag
    return wire_path


def _plain(path: str) -> str:
    return path.replace("_", "").lower()


def find_flag(name: str) -> SubmitFlag:
    """Return the flag of this name.  Raises UsageFault, which suggests the nearest name."""
    if name in FLAGS:
        return FLAGS[name]
    near = difflib.get_close_matches(name, FLAGS, n=1)
    hint = f"; did you mean --{near[0]}?" if near else ""
    raise UsageFault(f"there is no flag --{name}{hint}")


def put(document: dict[str, Any], path: Path, value: Any) -> None:
    """Set one field in the document's own key case; create missing mappings on its path."""
    *parents, last = path
    mapping = document
    for parent in parents:
        key = find_spelling(mapping, parent)
        if not isinstance(mapping.get(key), dict):
            mapping[key] = {}
        mapping = mapping[key]
    mapping[find_spelling(mapping, last)] = value


def find_spelling(mapping: Mapping[str, Any], key: str) -> str:
    """Return the spelling of a key in a mapping, in snake case if the mapping has only that."""
    return snake(key) if snake(key) in mapping and key not in mapping else key
