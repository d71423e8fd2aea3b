"""Server-side apply, as far as traces show it: who owns a field, and conflicts over it.

Owners are kept beside the objects; ``managedFields`` is not written.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .patches import merge
from .statuses import ApiError

Body = dict[str, Any]
Path = tuple[str, ...]
_UNOWNED = ("apiVersion", "kind")
_NAMES = ("name", "namespace", "uid", "resourceVersion")


class Owners:
    """Which manager applied which field of an object, by the object's uid."""

    def __init__(self) -> None:
        self._owners: dict[str, dict[Path, str]] = {}

    def take(self, uid: str, manager: str, patch: Body) -> None:
        """Note that a manager owns all fields of what it applied."""
        owners = self._owners.setdefault(uid, {})
        owners.update(dict.fromkeys((path for path, _ in list_leaves(patch)), manager))

    def list_conflicts(self, before: Body, patch: Body, manager: str) -> list[tuple[str, Path]]:
        """Other managers' fields that a patch would change, with those managers."""
        owners = self._owners.get(before["metadata"]["uid"], {})
        stored = dict(list_leaves(before))
        return [
            (owners[path], path)
            for path, value in list_leaves(patch)
            if owners.get(path, manager) != manager and stored.get(path) != value
        ]


def list_leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The fields of an object with their paths; a list counts as one field."""
    if not isinstance(value, Mapping) or not value:
        yield path, value
        return
    for key, below in value.items():
        is_skipped = (not path and key in _UNOWNED) or (path == ("metadata",) and key in _NAMES)
        if not is_skipped:
            yield from list_leaves(below, (*path, key))


def apply_server_side(
    owners: Owners, before: Body, patch: Body, manager: str, *, is_forced: bool
) -> Body:
    """The object with a manager's fields applied; 409 where others own fields that change."""
    conflicts = owners.list_conflicts(before, patch, manager)
    if conflicts and not is_forced:
        raise _refuse(conflicts)
    changes = {key: value for key, value in patch.items() if key not in _UNOWNED}
    merged = merge(before, _merge_items(before, changes))
    result: Body = merged
    return result


def _merge_items(before: Any, patch: Any) -> Any:
    """A patch whose lists of named items keep what the stored items have besides."""
    if isinstance(patch, dict):
        rows = before if isinstance(before, dict) else {}
        return {key: _merge_items(rows.get(key), value) for key, value in patch.items()}
    if isinstance(patch, list) and isinstance(before, list):
        stored = {key: row for row in before if (key := _find_merge_key(row))}
        keys = [_find_merge_key(row) for row in patch]
        return [
            _merge_item(stored[key], row) if key in stored else row
            for key, row in zip(keys, patch, strict=True)
        ]
    return patch


def _find_merge_key(row: Any) -> str | None:
    """What tells an item of a list from others; None: the whole item does."""
    return (row.get("mountPath") or row.get("name")) if isinstance(row, dict) else None


def _merge_item(stored: Body, patch: Body) -> Any:
    return merge(dict(stored), _merge_items(stored, patch))


def _refuse(conflicts: list[tuple[str, Path]]) -> ApiError:
    causes, texts = [], []
    for manager, path in conflicts:
        field = "." + ".".join(path)
        words = f'conflict with "{manager}"'
        causes.append({"reason": "FieldManagerConflict", "message": words, "field": field})
        texts.append(f"{words}: {field}")
    count = f"{len(conflicts)} conflict{'s' if len(conflicts) > 1 else ''}"
    message = f"Apply failed with {count}: {', '.join(texts)}"
    return ApiError(409, "Conflict", message, {"causes": causes})
