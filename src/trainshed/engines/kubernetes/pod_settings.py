"""Reads the settings of the configuration that pods get: tolerations, GPUs and security."""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, Final

from trainshed.engines.kubernetes.gpus import GpuRow
from trainshed.engines.kubernetes.security import SECCOMP_TYPES, SecuritySettings
from trainshed.engines.kubernetes.tolerations import EFFECTS, Toleration
from trainshed.engines.setting_readers import Reader, SettingReaders

READERS: Final = SettingReaders("a Kubernetes engine")

_ID_MAX: Final = 2**31 - 1
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_QUALIFIED_NAME: Final = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)
_CAPABILITY: Final = re.compile(r"[A-Z][A-Z_]{0,40}")
_SECCOMP_PATH: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")


def read_selector(name: str, value: Any) -> dict[str, str]:
    """Read a table of labels of nodes.  Raises UsageFault."""
    return {
        _read_key(name, key): text
        for key, text in READERS.read_table(name, value, read_label_value).items()
    }


def read_label_value(name: str, value: Any) -> str:
    """Read the value of a label.  Raises UsageFault."""
    text = READERS.read_text(name, value)
    if not _LABEL_VALUE.fullmatch(text):
        accepted = "at most 63 letters, digits, and inner dashes, dots and underscores"
        raise READERS.refuse(name, accepted, value)
    return text


def read_tolerations(name: str, value: Any) -> tuple[Toleration, ...]:
    """Read a list of tolerations.  Raises UsageFault."""
    if not isinstance(value, list | tuple) or not all(isinstance(row, Mapping) for row in value):
        raise READERS.refuse(name, "a list of tables", value)
    return tuple(_read_toleration(f"{name}[{index}]", row) for index, row in enumerate(value))


def read_gpus(name: str, value: Any) -> dict[str, GpuRow]:
    """Read the rows of GPUs by accelerator type.  Raises UsageFault."""
    return READERS.read_tables(name, value, _read_gpu_row)


def read_security(name: str, value: Any) -> SecuritySettings:
    """Read the table ``security``.  Raises UsageFault."""
    if not isinstance(value, Mapping):
        raise READERS.refuse(name, "a table", value)
    names = [setting.name for setting in fields(SecuritySettings)]
    READERS.check_names(value, names, name)
    return SecuritySettings(
        **{key: _SECURITY[key](f"{name}.{key}", setting) for key, setting in value.items()}
    )


def _read_toleration(name: str, row: Mapping[str, Any]) -> Toleration:
    READERS.check_names(row, Toleration._fields, name)
    values = {key: _TOLERATION[key](f"{name}.{key}", value) for key, value in row.items()}
    toleration = Toleration(**values)
    if toleration.value is not None and not toleration.key:
        raise READERS.refuse(f"{name}.key", "set if there is a value", toleration.key)
    if toleration.seconds is not None and toleration.effect != "NoExecute":
        raise READERS.refuse(f"{name}.effect", "NoExecute if there are seconds", toleration.effect)
    return toleration


def _read_gpu_row(name: str, row: Mapping[str, Any]) -> GpuRow:
    READERS.check_names(row, [setting.name for setting in fields(GpuRow)], name)
    return GpuRow(**{key: _GPU_ROW[key](f"{name}.{key}", value) for key, value in row.items()})


def _read_values_by_label(name: str, value: Any) -> dict[str, tuple[str, ...]]:
    """Read a table of labels of nodes, each with one accepted value or a list of them."""
    if not isinstance(value, Mapping):
        raise READERS.refuse(name, "a table of texts or of lists of texts", value)
    return {_read_key(name, key): _read_values(f"{name}.{key}", row) for key, row in value.items()}


def _read_values(name: str, value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not values:
        raise READERS.refuse(name, "a text or a list of at least one text", value)
    return READERS.read_texts(name, values, read_label_value)


def _read_key(name: str, value: Any) -> str:
    """Read the key of a label or a taint, or the name of a resource."""
    text = READERS.read_text(name, value)
    if text and not _QUALIFIED_NAME.fullmatch(text):
        raise READERS.refuse(name, "a name such as nvidia.com/gpu", text)
    return text


def _read_resource(name: str, value: Any) -> str:
    text = _read_key(name, value)
    if "/" not in text:
        raise READERS.refuse(name, "the name of a resource, such as nvidia.com/gpu", text)
    return text


def _read_effect(name: str, value: Any) -> str:
    if value not in ("", *EFFECTS):
        raise READERS.refuse(name, f"one of {', '.join(EFFECTS)}", value)
    return str(value)


def _read_id(name: str, value: Any) -> int:
    number = READERS.read_count(name, value)
    if number > _ID_MAX:
        raise READERS.refuse(name, f"a whole number from 0 to {_ID_MAX}", value)
    return number


def _read_ids(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise READERS.refuse(name, "a list of whole numbers", value)
    return tuple(_read_id(f"{name}[{index}]", number) for index, number in enumerate(value))


def _read_capability(name: str, value: Any) -> str:
    text = READERS.read_text(name, value)
    if not _CAPABILITY.fullmatch(text):
        raise READERS.refuse(name, "ALL, or a capability such as IPC_LOCK without CAP_", value)
    return text


def _read_seccomp(name: str, value: Any) -> str:
    text = READERS.read_text(name, value)
    if text and not _SECCOMP_PATH.fullmatch(text):
        words = ", ".join(SECCOMP_TYPES)
        raise READERS.refuse(name, f"{words} or the relative path of a profile", value)
    return text


_TOLERATION: Final[Mapping[str, Reader]] = {
    "key": _read_key,
    "value": read_label_value,
    "effect": _read_effect,
    "seconds": READERS.read_count,
}
_GPU_ROW: Final[Mapping[str, Reader]] = {
    "resource": _read_resource,
    "selector": _read_values_by_label,
    "tolerations": read_tolerations,
    "runtime_class": READERS.read_dns_name,
}
_read_capabilities: Final[Callable[[str, Any], tuple[str, ...]]] = partial(
    READERS.read_texts, read_text=_read_capability
)
_SECURITY: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(("run_as_user", "run_as_group", "fs_group"), _read_id),
    **dict.fromkeys(("run_as_non_root", "allow_privilege_escalation"), READERS.read_switch),
    "supplemental_groups": _read_ids,
    **dict.fromkeys(("drop_capabilities", "add_capabilities"), _read_capabilities),
    "seccomp": _read_seccomp,
}
