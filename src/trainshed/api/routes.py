"""The table of routes, made ready to find a row by its path in one look-up.

Google's paths alternate: ``/v1/projects/P/locations/L/customJobs/J:cancel`` is a version, then
pairs of a collection and an id, then perhaps a verb of its own behind a colon.  The version, the
collections, the length and the verb are the key, however many rows there are.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple
from urllib.parse import unquote

from trainshed.api.call import Method
from trainshed.api.documents import TransportRefusal
from trainshed.model.refusals import Code, Refusal


class _Shape(NamedTuple):
    version: str
    collections: tuple[str, ...]
    length: int
    action: str


class Routes:
    """All rows, by the shape of their path and their HTTP verb."""

    def __init__(self, methods: Iterable[Method]) -> None:
        """Index the rows.  Two rows of one verb and shape are our mistake."""
        self._rows: dict[_Shape, dict[str, Method]] = {}
        for method in methods:
            shape, parts = _taken_apart(method.path)
            if not all(part.startswith("{") for part in parts):
                raise AssertionError(f"{method.path} does not alternate collections and ids")
            rows = self._rows.setdefault(shape, {})
            if method.verb in rows:
                raise AssertionError(f"{method.verb} {method.path} is there twice")
            rows[method.verb] = method

    @property
    def versions(self) -> Collection[str]:
        """The first segments of all paths."""
        return {shape.version for shape in self._rows}

    def find(self, verb: str, path: str) -> tuple[Method, dict[str, str]]:
        """The row of a raw (percent-encoded) path, and the parts of the name.

        Raises a Refusal: 404 for an unknown path, 405 for an unknown verb, 400 for an id that no
        resource can have.
        """
        shape, parts = _taken_apart(path)
        rows = self._rows.get(shape)
        if rows is None or not all(parts):
            raise Refusal(Code.NOT_FOUND, f"there is no method at {path[:200]}")
        method = rows.get(verb)
        if method is None:
            allowed = ", ".join(sorted(rows))
            message = f"{path[:200]} has no verb {verb[:20]}; it has {allowed}"
            raise TransportRefusal(Code.UNIMPLEMENTED, message, 405, allowed)
        return method, dict(zip(parameter_names(method.path), map(_decoded, parts), strict=True))


def parameter_names(template: str) -> list[str]:
    """The names in a template's braces, in order."""
    return [part[1:-1] for part in _taken_apart(template)[1]]


def _taken_apart(path: str) -> tuple[_Shape, list[str]]:
    version, *segments = path.removeprefix("/").split("/")
    action = ""
    if segments and ":" in segments[-1]:
        segments[-1], _, action = segments[-1].rpartition(":")
    shape = _Shape(version, tuple(segments[0::2]), len(segments), action)
    return shape, segments[1::2]


def _decoded(part: str) -> str:
    try:
        text = unquote(part, errors="strict") if "%" in part else part
    except UnicodeDecodeError:
        raise Refusal(Code.INVALID_ARGUMENT, f"{part[:100]} is not UTF-8") from None
    if "/" in text or not text.isprintable():
        message = f"{text[:100]!r} cannot be an id: it holds a slash or a control character"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    return text
