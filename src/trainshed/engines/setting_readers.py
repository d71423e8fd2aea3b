"""Reads the settings in the table of an engine, and refuses others with what is accepted.

Each reader takes the name of a setting and its value from TOML, and returns the value for the
engine's options.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from trainshed.model.faults import UsageFault
from trainshed.model.resources import FleetPolicy

#: Reads one setting: its name and value to the value for the options.
Reader = Callable[[str, Any], Any]
TextReader = Callable[[str, Any], str]

#: The longest time between two samples of usage, in seconds.
SAMPLE_S_MAX: Final = 3600.0

#: A part of a DNS name, and a whole one, as Kubernetes wants names of objects (RFC 1123).
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NAME: Final = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})*")
_NAME_LENGTH_MAX: Final = 253
#: An amount of a resource in Kubernetes: a number with a decimal or a binary unit.
_QUANTITY: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:m|k|[MGTPE]|[KMGTPE]i)?")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SettingReaders:
    """The readers of one kind of engine, such as ``a Slurm engine``.

    Every reader raises UsageFault for a value that is not accepted.
    """

    engine: str

    def refuse(self, name: str, accepted: str, value: Any) -> UsageFault:
        """Return the error for a value that is not accepted."""
        return UsageFault(f"{name} of {self.engine} must be {accepted}, got {value!r}")

    def check_names(self, table: Mapping[str, Any], names: Collection[str], row: str = "") -> None:
        """Raise UsageFault for a setting of another name.

        ``row`` is the name of a table in the engine's table; empty: the engine's table itself.
        """
        unknown = sorted(set(table) - set(names))
        if unknown:
            owner = f"{row} of {self.engine}" if row else self.engine
            raise UsageFault(
                f"{owner} has no setting {unknown[0]!r}; accepted are: {', '.join(names)}"
            )

    def require(self, table: Mapping[str, Any], name: str, meaning: str) -> None:
        """Raise UsageFault if a setting is missing or empty."""
        if not table.get(name):
            raise UsageFault(f"{self.engine} needs `{name}`: {meaning}")

    def read_text(self, name: str, value: Any) -> str:
        """Read any text."""
        if not isinstance(value, str):
            raise self.refuse(name, "a text", value)
        return value

    def read_folder(self, name: str, value: Any) -> str:
        """Read an absolute path, without a slash at its end; or an empty text."""
        text = self.read_text(name, value).rstrip("/")
        if text and not text.startswith("/"):
            raise self.refuse(name, "an absolute path", value)
        return text

    def read_dns_label(self, name: str, value: Any) -> str:
        """Read a name without dots, such as that of a namespace; or an empty text."""
        text = self.read_text(name, value)
        if text and not _LABEL.fullmatch(text):
            accepted = "at most 63 lowercase letters, digits and inner dashes"
            raise self.refuse(name, accepted, text)
        return text

    def read_dns_name(self, name: str, value: Any) -> str:
        """Read a name that may have dots, such as that of a claim; or an empty text."""
        text = self.read_text(name, value)
        if text and (len(text) > _NAME_LENGTH_MAX or not _NAME.fullmatch(text)):
            accepted = "lowercase letters, digits, inner dashes and dots, at most 253 in all"
            raise self.refuse(name, accepted, text)
        return text

    def read_quantity(self, name: str, value: Any) -> str:
        """Read an amount of a resource as Kubernetes writes it; or an empty text."""
        if not isinstance(value, str) or (value and not _QUANTITY.fullmatch(value)):
            raise self.refuse(name, "a quantity such as 64Mi or 500m", value)
        return value

    def read_switch(self, name: str, value: Any) -> bool:
        """Read true or false."""
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false", value)
        return value

    def read_seconds(self, name: str, value: Any) -> float:
        """Read a number from 0."""
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise self.refuse(name, "a number from 0", value)
        return float(value)

    def read_sample_time(self, name: str, value: Any) -> float:
        """Read the seconds between two samples of usage; 0: no samples."""
        seconds = self.read_seconds(name, value)
        if seconds and not 1 <= seconds <= SAMPLE_S_MAX:
            raise self.refuse(name, f"0, or a number from 1 to {SAMPLE_S_MAX:g}", value)
        return seconds

    def read_count(self, name: str, value: Any, *, minimum: int = 0) -> int:
        """Read a whole number from a minimum."""
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self.refuse(name, f"a whole number from {minimum}", value)
        return value

    def read_policy(self, name: str, value: Any) -> FleetPolicy:
        """Read whether jobs request what their machine type has: exact or best-effort."""
        accepted = (FleetPolicy.EXACT, FleetPolicy.BEST_EFFORT)
        for policy in accepted:
            if value in (policy, policy.value):
                return policy
        raise self.refuse(name, " or ".join(policy.value for policy in accepted), value)

    def read_texts(
        self, name: str, value: Any, read_text: TextReader | None = None
    ) -> tuple[str, ...]:
        """Read a list of texts; ``read_text`` reads each of them, if not every text is accepted."""
        if not isinstance(value, list | tuple):
            raise self.refuse(name, "a list of texts", value)
        read = read_text or self.read_text
        return tuple(read(f"{name}[{index}]", text) for index, text in enumerate(value))

    def read_table(
        self, name: str, value: Any, read_text: TextReader | None = None
    ) -> dict[str, str]:
        """Read a table of texts; ``read_text`` as in ``read_texts``."""
        if not isinstance(value, Mapping):
            raise self.refuse(name, "a table of texts", value)
        read = read_text or self.read_text
        return {str(key): read(f"{name}.{key}", text) for key, text in value.items()}

    def read_tables(
        self, name: str, value: Any, read_row: Callable[[str, Mapping[str, Any]], T]
    ) -> dict[str, T]:
        """Read a table of tables; ``read_row`` reads each of these, from its name and content."""
        if not isinstance(value, Mapping):
            raise self.refuse(name, "a table of tables", value)
        return {
            str(key): read_row(f"{name}.{key}", self._read_row(f"{name}.{key}", row))
            for key, row in value.items()
        }

    def _read_row(self, name: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self.refuse(name, "a table", value)
        return value
