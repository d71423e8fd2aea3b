"""Dataclasses as 3.11 has them, for Python 3.9: fields that are given by name alone."""

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

if sys.version_info >= (3, 11):  # noqa: UP036 - nodes have older ones
    from dataclasses import dataclass
else:

    def dataclass(
        cls: Any = None, *, slots: bool = False, kw_only: bool = False, **how: Any
    ) -> Any:
        """Make one; slots only save memory."""
        del slots

        def decorate(kind: type) -> type:
            if not kw_only:
                return dataclasses.dataclass(**how)(kind)
            new_class = dataclasses.dataclass(**{**how, "init": False})(kind)
            new_class.__init__ = _by_name(dataclasses.fields(new_class))
            return new_class

        return decorate if cls is None else decorate(cls)

    def _by_name(fields: Any) -> Callable[..., None]:
        def init(self: Any, **arguments: Any) -> None:
            for field in fields:
                value = arguments.pop(field.name) if field.name in arguments else _default_of(field)
                object.__setattr__(self, field.name, value)
            if arguments:
                raise TypeError(f"there are no arguments {sorted(arguments)}")

        return init

    def _default_of(field: Any) -> Any:
        if field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
        if field.default is dataclasses.MISSING:
            raise TypeError(f"the argument {field.name} is missing")
        return field.default


__all__ = ["dataclass"]
