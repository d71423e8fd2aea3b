"""Writes a job document as YAML for people, in the order of its keys."""

from collections.abc import Mapping
from typing import Any, Final

from trainshed.model.visible import visible

_WIDTH: Final = 100
#: Keys that people look for first; the other keys are sorted.
_FIRST: Final = ("jobId", "job_id", "displayName", "display_name", "labels")


def yaml_of(document: Mapping[str, Any]) -> str:
    """Return a document as YAML, which ``documents`` reads back as the same values."""
    import yaml  # noqa: PLC0415  # PyYAML is slow to import

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    names = [name for name in _FIRST if name in document]
    ordered = {name: document[name] for name in (*names, *sorted(set(document) - set(names)))}

    def dump(*, allow_unicode: bool) -> str:
        text: str = yaml.dump(
            ordered, Dumper=dumper, sort_keys=False, allow_unicode=allow_unicode, width=_WIDTH
        )
        return text

    text = dump(allow_unicode=True)
    # YAML's own escapes can be read back; those of ``visible`` cannot
    return text if visible(text) == text else dump(allow_unicode=False)
